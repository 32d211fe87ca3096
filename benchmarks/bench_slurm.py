"""How fast is Slurm's unmodified controller in simulated time?

Many short jobs on nodes of which they use parts, on 100 and on 1,000 nodes; the registration of 10,000 nodes;
and the first jobs of KTH-SP2 with backfilling like EASY's, with steps of 1 s and of 30 s, compared with real
time. The best of some runs, from the start of the controller to all results. Run with
`python -m benchmarks.bench_slurm`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from benchmarks.bench_replay import LOGS
from benchmarks.record import keep
from scheduler.node_request import Node, Partition, Request
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.slurm.cluster import configuration_for
from sil.slurm.running import How, running
from sil.trace.facts import TIMINGS
from sil.workload.job_log import SCHEMA, JobLog
from sil.workload.swf import read_swf
from site_db.site_file.cluster import SiteNodes

SEED = 1
RUNS = 2
SHORT_JOBS = 3_000
PER_SECOND = 10
FIRST_JOBS = ((1_000, 1.0, RUNS), (1_000, 30.0, RUNS), (5_000, 30.0, 1), (5_000, 1.0, 1))
"""Of KTH-SP2, the step, and how often. The last one takes ten minutes."""
BATCH = frozenset({"batch"})
LIKE_EASY = (
    "slurm (SchedulerParameters=bf_job_part_count_reserve=1,bf_window=10080,bf_max_job_test=5000,"
    "default_queue_depth=10000)"
)


def cluster_of(n_nodes: int) -> SiteNodes:
    node = Node(64, 256_000, partitions=BATCH)
    return SiteNodes({f"n{k:05d}": node for k in range(n_nodes)}, {"batch": Partition("batch")}, {})


def short_jobs(n_nodes: int) -> JobLog:
    """Jobs of a few minutes, which hardly wait."""
    rng, cluster = np.random.default_rng(SEED), cluster_of(n_nodes)
    rows = [
        (k, float(k // PER_SECOND), float(run_s), 1, 600.0, 1, int(kind))
        for k, (run_s, kind) in enumerate(
            zip(rng.integers(60, 300, SHORT_JOBS), rng.integers(0, 4, SHORT_JOBS), strict=True)
        )
    ]
    jobs = pl.DataFrame(rows, {**SCHEMA, "request": pl.Int64}, orient="row")
    requests = tuple(Request(1, cores, 1000 * cores, partitions=BATCH) for cores in (1, 2, 4, 8))
    return JobLog(
        "short", jobs, cluster.cores, cluster=cluster, requests=requests, job_classes=("short",) * 4
    )


class Took(NamedTuple):
    wall_s: float
    cpu_s: float
    """Of the controller and of the testbed."""


def replayed(log: JobLog, scheduler: str, step_s: float = 1.0, runs: int = RUNS) -> Took:
    def once() -> Took:
        with tempfile.TemporaryDirectory() as folder:
            wall_s, cpu_s = time.perf_counter(), time.process_time()
            fault = replace(Replay(log), slurm_step_s=step_s).run(resolve(scheduler), Path(folder)).fault
            assert fault is None, fault
            own = Took(time.perf_counter() - wall_s, time.process_time() - cpu_s)
            of_controller = pl.read_parquet(Path(folder) / TIMINGS)["cpu_s"].sum()
            return own._replace(cpu_s=own.cpu_s + float(of_controller))

    return min(once() for _ in range(runs))


def registered_s(n_nodes: int) -> float:
    """From the running controller to its knowing all nodes."""
    cluster = cluster_of(n_nodes)
    with running(configuration_for(cluster), 1_577_836_800.0, how=How(by_munge=True)) as controller:
        controller.cluster = cluster.nodes
        began_s = time.perf_counter()
        controller.register(cluster.nodes)
        took_s = time.perf_counter() - began_s
        assert controller.slurm("sinfo", "-h", "-o", "%D %t") == f"{n_nodes} idle\n"
    return took_s


class Figure(NamedTuple):
    """What is measured, in what unit: by wall time, and by CPU time."""

    what: str
    unit: str
    wall: float
    cpu: float | None = None


def figures() -> Iterator[Figure]:
    yield Figure("registration of 10,000 nodes", "s", registered_s(10_000))
    for n_nodes in (100, 1_000):
        took = replayed(short_jobs(n_nodes), "slurm")
        rates = SHORT_JOBS / took.wall_s, SHORT_JOBS / took.cpu_s
        yield Figure(f"{SHORT_JOBS:,} short jobs on {n_nodes:,} nodes", "jobs/s", *rates)
    there = LOGS / "KTH-SP2.swf.gz"
    for n_jobs, step_s, runs in FIRST_JOBS if there.exists() else ():
        log = read_swf(there).slice(0, n_jobs)
        log_s = float(log.jobs["submit_s"].max() or 0.0)  # type: ignore[arg-type]
        took = replayed(log, LIKE_EASY, step_s, runs)
        what = f"first {n_jobs:,} jobs of KTH-SP2, step {step_s:g} s"
        yield Figure(what, "times real time", log_s / took.wall_s, log_s / took.cpu_s)


def main() -> None:
    found = []
    for figure in figures():
        cpu = "" if figure.cpu is None else f"; by CPU time {figure.cpu:,.0f}"
        print(f"{figure.what}: {figure.wall:,.0f} {figure.unit}{cpu}", flush=True)
        found.append({key: value for key, value in figure._asdict().items() if value is not None})
    print(f"Kept in {keep('slurm', SEED, found).name}.")


if __name__ == "__main__":
    main()
