"""Small sites, problems and traces for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scheduler.mapping.etc import EtcMatrix
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Cluster, DispatchOrder, Job, JobClass, Machine, Schedule, Site
from sil.trace.facts import Fact, RunDescription
from sil.trace.recorder import TraceRecorder

INF = np.inf


def problem(
    etc_s: Sequence[Sequence[float]],
    ready_s: Sequence[float] | None = None,
    members: Sequence[Sequence[int]] = (),
    now_s: float = 0.0,
) -> MappingProblem:
    """Rows are jobs; columns are machines, then clusters."""
    return MappingProblem.from_matrix(np.array(etc_s, dtype=float), ready_s, members, now_s)


def placed(schedule: Schedule) -> dict[int, tuple[int, float, float]]:
    """job -> (resource, start, completion)"""
    return {a.job: (a.resource, a.start_s, a.completion_s) for a in schedule.assignments}


def site(n_machines: int, members: Sequence[Sequence[int]] = (), least_share: float = 1.0) -> Site:
    """Machines m0, m1, ... of one class, clusters c0, c1, ..., one job class that runs everywhere."""
    clusters = tuple(
        Cluster(f"c{c}", tuple(f"m{j}" for j in machines), (), least_share)
        for c, machines in enumerate(members)
    )
    return Site(
        "test",
        tuple(Machine(f"m{j}", "any") for j in range(n_machines)),
        clusters,
        (),
        (JobClass("work", ("any",), tuple(c.name for c in clusters)),),
    )


def trace(*rows: tuple[float, Fact, Mapping[str, Any]]) -> pl.DataFrame:
    """The facts of one run: (time, fact, columns)."""
    recorder = TraceRecorder()
    jobs: dict[int, Job] = {}
    for time_s, fact, columns in rows:
        match fact:
            case Fact.JOB_ARRIVED:
                about = columns["job"], columns["job_class"], time_s, columns["user"]
                job = Job(*about, limit_s=columns.get("expected_s"), request=columns.get("request"))
                jobs[job.id] = job
                recorder.note_arrival(time_s, job)
            case Fact.RUN_STARTED:
                job = jobs.get(columns["job"], Job(columns["job"], "unknown", time_s))
                where = columns["resource"], columns["machines"]
                shares = columns.get("shares", ())
                recorder.note_start(time_s, DispatchOrder(columns["run"], job, *where, 1.0, shares))
            case _:
                recorder.note(time_s, fact, **columns)
    return recorder.frame(0, 0, "under-test")


TINY_SITE = """
name = "tiny"
machine_classes = [{ name = "fast" }, { name = "slow" }]
machines = [
  { names = ["f[1-2]"], machine_class = "fast" },
  { names = ["s[1-2]"], machine_class = "slow" },
]
interconnects = [{ name = "lan", bandwidth_mbit_per_s = 100 }]
clusters = [{ name = "pair", members = ["f1", "f2"], interconnects = ["lan"] }]

[[job_classes]]
name = "short"
sequential_s = { fast = 10, slow = 30 }
parallel_s = { pair = 6 }

[[job_classes]]
name = "long"
sequential_s = { fast = 100, slow = 300 }
"""

TINY_EXPERIMENT = """
name = "tiny-experiment"
site = "tiny.toml"
seed = 7
replications = 3
schedulers = ["mct", "sjs"]

[workload]
jobs = 12
"""


def tiny_experiment(folder: Path, more: str = "", site_text: str = TINY_SITE, **changes: str) -> Path:
    """An experiment file on a site of four machines; `changes` replace whole `key = value` lines of it."""
    text = TINY_EXPERIMENT
    for key, value in changes.items():
        lines = [f"{key} = {value}" if line.startswith(f"{key} =") else line for line in text.splitlines()]
        text = "\n".join(lines)
    (folder / "tiny.toml").write_text(site_text)
    path = folder / "experiment.toml"
    path.write_text(text + "\n" + more)
    return path


def dense(etc: EtcMatrix) -> list[list[float]]:
    return [[float(value) for value in row] for row in etc.dense()]


def description(n_machines: int) -> RunDescription:
    """Of runs on `n_machines` machines."""
    machines = tuple(f"m{j}" for j in range(n_machines))
    return RunDescription(
        experiment="",
        description="",
        version="",
        scheduler_source="",
        seed=1,
        replications=1,
        schedulers=("only",),
        site="",
        machines=machines,
        machine_classes=("fast",) * n_machines,
        clusters=(),
        job_classes=(),
        workload="",
        points=({},),
    )
