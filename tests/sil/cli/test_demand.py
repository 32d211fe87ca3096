"""`sil db demand`: what past jobs requested and used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import sil, succeeded, the_sentence

pytestmark = pytest.mark.usefixtures("in_this_process")

CONF = """\
NodeName=n[1-2] CPUs=8
NodeName=g1 CPUs=8 Gres=gpu:a100:4
PartitionName=cpu Nodes=n[1-2]
PartitionName=gpu Nodes=g1
"""
HEADER = "JobID|User|Account|QOS|Partition|Submit|Start|End|State|ReqTRES"
ROWS = (
    ("1|ann|physics|normal|cpu", "08:00", "08:30", "09:30", "COMPLETED", "cpu=16,node=2"),
    ("2|bob|physics|high|cpu", "08:00", "08:00", "10:00", "TIMEOUT", "cpu=2,node=1"),
    ("3|cat|biology|normal|gpu", "08:00", "09:00", "09:30", "NODE_FAIL", "cpu=4,node=1,gres/gpu=2"),
    ("4|cat|biology|normal|gpu", "08:00", "", "", "PENDING", "cpu=4,node=1,gres/gpu=2"),
)


@pytest.fixture
def lab(here: Path) -> None:

    def at(clock: str) -> str:
        return f"2026-03-02T{clock}:00" if clock else "Unknown"

    rows = ["|".join((who, *map(at, times), state, tres)) for who, *times, state, tres in ROWS]
    Path("sacct.txt").write_text("\n".join((HEADER, *rows)) + "\n")
    Path("slurm.conf").write_text(CONF)
    for command in (
        ("init",),
        ("import-slurm-conf", "slurm.conf", "--db", "site.db#lab"),
        ("import-sacct", "sacct.txt"),
    ):
        succeeded("db", *command)


def demand(by: str) -> dict[str, dict[str, Any]]:
    done = succeeded("db", "demand", "--by", by, "--json")
    return {row[by]: row for row in json.loads(done.stdout)["demand"]}


@pytest.mark.usefixtures("lab")
def test_demand_counts_all_jobs_that_used_nodes_and_hours_of_cpus_and_gpus() -> None:
    found = demand("partition")
    assert list(found) == ["cpu", "gpu"]  # the largest first
    cpu, gpu = found["cpu"], found["gpu"]
    assert (cpu["jobs"], cpu["completed"], cpu["cpu_h"], cpu["gpu_h"]) == (2, 1, 16 * 1 + 2 * 2, 0)
    assert (gpu["jobs"], gpu["completed"], gpu["cpu_h"], gpu["gpu_h"]) == (1, 0, 4 * 0.5, 2 * 0.5)
    assert cpu["mean_waiting_s"] == 900
    assert gpu["mean_waiting_s"] == 3600


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    "conf",
    [CONF.replace("Nodes=g1", "Nodes=g1 OverSubscribe=EXCLUSIVE"), f"SelectType=select/linear\n{CONF}"],
)
def test_demand_of_a_job_with_whole_nodes_is_that_of_all_their_cpus_and_gpus(conf: str) -> None:
    """The job in partition gpu requested 4 of 8 CPUs and 2 of 4 GPUs, for half an hour."""
    Path("slurm.conf").write_text(conf)
    succeeded("db", "import-slurm-conf", "slurm.conf")
    gpu = demand("partition")["gpu"]
    assert (gpu["cpu_h"], gpu["gpu_h"]) == (8 * 0.5, 4 * 0.5)


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    ("by", "jobs"),
    [
        ("account", {"physics": 2, "biology": 1}),
        ("qos", {"normal": 2, "high": 1}),
        ("user", {"ann": 1, "bob": 1, "cat": 1}),
        ("outcome", {"COMPLETED": 1, "TIMEOUT": 1, "NODE_FAIL": 1}),
    ],
)
def test_demand_is_added_up_by_account_quality_of_service_user_and_outcome(
    by: str, jobs: dict[str, int]
) -> None:
    assert {name: row["jobs"] for name, row in demand(by).items()} == jobs
    assert "CPU hours" in sil("db", "demand", "--by", by).stdout


@pytest.mark.usefixtures("lab")
def test_a_whole_node_counts_with_what_the_machine_class_has_where_the_job_ran() -> None:
    """A partition of all nodes has GPUs on one, but the job was on another."""
    Path("slurm.conf").write_text(CONF + "PartitionName=all Nodes=ALL OverSubscribe=EXCLUSIVE\n")
    head = HEADER + "|NodeList"
    row = "9|dan|physics|normal|all|2026-03-02T08:00:00|2026-03-02T08:00:00|2026-03-02T09:00:00|COMPLETED"
    Path("whole.txt").write_text(f"{head}\n{row}|cpu=1,node=1|n1\n")
    for command in (("import-slurm-conf", "slurm.conf"), ("import-sacct", "whole.txt")):
        succeeded("db", *command)
    whole = demand("partition")["all"]
    assert (whole["cpu_h"], whole["gpu_h"]) == (8, 0)


def test_without_past_jobs_there_is_no_demand_to_show(here: Path) -> None:
    Path("slurm.conf").write_text(CONF)
    succeeded("db", "init")
    succeeded("db", "import-slurm-conf", "slurm.conf", "--db", "site.db#lab")
    assert "the site 'lab' has no past jobs; import them" in the_sentence(sil("db", "demand"))
