"""A small site of nodes for plans, and its accounting."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from sil.planning.plan_file import Plan
from sil.planning.sites import OnSite

SITE = """
name = "shared"
machine_classes = [{ name = "cpu-node" }, { name = "gpu-node" }]

[[machines]]
names = ["c[1-4]"]
machine_class = "cpu-node"
processors = 8
memory_mb = 32_000

[[machines]]
names = ["g[1-2]"]
machine_class = "gpu-node"
processors = 8
memory_mb = 64_000
gpus = { a100 = 2 }

[[partitions]]
name = "cpu"
nodes = ["c[1-4]"]

[[partitions]]
name = "gpu"
nodes = ["g[1-2]"]

[[partitions]]
name = "all"
nodes = ["c[1-4]", "g[1-2]"]

[[site_resources]]
name = "licence"
amount = 3

[[job_classes]]
name = "work"
request = { cores = 4, memory_mb = 8_000, partitions = ["cpu"] }
sequential_s = { cpu-node = 600 }

[[job_classes]]
name = "train"
request = { cores = 2, memory_mb = 8_000, gpus = 1, partitions = ["gpu"] }
sequential_s = { gpu-node = 1_200 }
"""

DRAWN = {
    "jobs": 150,
    "mix": {"work": 5.0, "train": 2.8},
    "arrivals": {"kind": "poisson", "jobs_per_quantum": 0.78, "quantum_s": 100},
}
"""0.008 jobs a second: 0.84 of the GPUs, 0.375 of the cores of partition cpu."""

OFFERS = [
    {"name": "a node with GPUs", "changes": ["1 x gpu-node"], "price": 10.0},
    {"name": "two nodes without", "changes": ["2 x cpu-node"], "price": 10.0},
]


def plan(**more: Any) -> Plan:
    """On the site, with drawn jobs unless `more` has others."""
    made = {
        "name": "nodes",
        "site": "site.toml",
        "schedulers": ["easy"],
        "goals": [{"metric": "gpu_waiting"}],
        "offers": OFFERS,
    }
    if not {"log", "history"} & more.keys():
        made["workload"] = DRAWN
    return Plan.model_validate(made | more)


def on_site(folder: Path, of: Plan, site: str = SITE) -> OnSite:
    (folder / "site.toml").write_text(site)
    return OnSite(of, folder, None)


BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
HOUR_S = 3600
WEEK_HOURS = 7 * 24


def accounting(path: Path, weeks: int, seed: int = 1) -> Path:
    """Output of sacct: jobs for a GPU, mostly by day, and one on two nodes at each end of a week."""
    rng = np.random.default_rng(seed)
    rows = ["JobID|User|Partition|Submit|Start|End|State|TimelimitRaw|ReqTRES|AllocTRES"]
    for hour in range(weeks * WEEK_HOURS):
        by_day = 9 <= hour % 24 < 17
        for _ in range(int(rng.poisson(2.5 if by_day else 0.1))):
            rows.append(
                _row(
                    len(rows),
                    hour,
                    int(rng.exponential(6000)) + 60,
                    "gpu",
                    "cpu=2,mem=8000M,node=1,gres/gpu=1",
                )
            )
        if hour % WEEK_HOURS in (0, WEEK_HOURS - 1):
            rows.append(_row(len(rows), hour, 300, "cpu", "cpu=16,mem=8000M,node=2"))
    path.write_text("\n".join(rows) + "\n")
    return path


def _row(number: int, hour: int, run_s: int, partition: str, tres: str) -> str:
    submit = BEGIN + timedelta(hours=hour)
    times = "|".join(
        f"{time:%Y-%m-%dT%H:%M:%S}" for time in (submit, submit, submit + timedelta(seconds=run_s))
    )
    return f"{number}|ann|{partition}|{times}|COMPLETED|1440|{tres}|{tres}"
