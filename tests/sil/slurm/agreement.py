"""Random jobs on random clusters, under Slurm's controller and on this testbed's own nodes.

Both serve the jobs first come, first served, on the first nodes that fit.

`python -m tests.sil.slurm.agreement [seed]` prints what differs, and why.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from scheduler.core.arrays import Ints2
from scheduler.node_request import Gpus, Node, Partition, Request
from scheduler.node_resources.core.codes import FREE
from scheduler.node_resources.state import NodeResources, rows_of
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.slurm.cluster import configuration_for
from sil.trace.facts import TRACE, Fact
from sil.trace.held import shares_in
from sil.trace.reading import read_facts
from sil.workload.job_log import SCHEMA, JobLog
from site_db.site_file.cluster import SiteNodes

INTERVAL_S = 5.0
"""How often the controller looks at its queue, besides after each event."""
PARAMETERS = f"batch_sched_delay=0,sched_interval={INTERVAL_S:.0f},default_queue_depth=10000"
JOBS_AT_A_TIME = 20
"""So many arrive together on idle nodes, since what starts elsewhere changes all that waits for it."""


@dataclass
class Compared:
    """Jobs that were compared, those that were not, by reason, and those that differ, by reason.

    Each job is compared beside the runs that Slurm has started before: when our nodes have room for it, first
    come, first served, and when Slurm starts it.
    """

    n: int = 0
    excluded: Counter[str] = field(default_factory=Counter)
    differ: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        return 1.0 - self.differ.total() / self.n

    def __str__(self) -> str:
        parts = [
            f"{self.share:.2%} of {self.n:,} jobs start within {INTERVAL_S:g} s of when our nodes have room"
        ]
        parts += [f"  {n:,} not compared: {why}" for why, n in self.excluded.items()]
        parts += [f"  {n:,} differ: {why}" for why, n in self.differ.items()]
        return "\n".join((*parts, *(f"    {example}" for example in self.examples)))


def random_cluster(rng: np.random.Generator) -> SiteNodes:
    nodes, threads = {}, {}
    for kind in range(int(rng.integers(1, 4))):
        n_threads = int(rng.integers(1, 3))
        gpus: tuple[str, ...] = ()
        match int(rng.integers(4)):
            case 0:
                gpus = ("a100",) * int(rng.integers(1, 5))
            case 1:
                gpus = ("a100", "v100", "a100", "v100")
        node = Node(
            cores=n_threads * int(rng.choice([4, 8, 16])),
            memory_mib=int(rng.choice([16_000, 64_000, 100_003])),
            gpus=gpus,
            others={"nvme": int(rng.integers(1, 5))} if rng.random() < 0.3 else {},
            features=frozenset({"fast"} if rng.random() < 0.5 else ()),
            partitions=frozenset({"batch"}),
        )
        for k in range(int(rng.integers(1, 4))):
            nodes[f"n{kind}{k}"] = node
            threads[f"n{kind}{k}"] = n_threads
    return SiteNodes(nodes, {"batch": Partition("batch")}, threads, site_resources={"matlab": 3})


def random_request(rng: np.random.Generator, cluster: SiteNodes) -> Request:
    """One that the cluster can satisfy.

    Of whole cores, as the readers of logs round requests, and of two tasks on each node whole pairs.
    """
    some, threads = [*cluster.nodes.values()], cluster.threads_in(frozenset({"batch"}))
    while True:
        node = some[int(rng.integers(len(some)))]
        shape = rng.choice(["part", "nodes", "tasks", "pairs"], p=[0.5, 0.2, 0.2, 0.1])
        chunks = {"part": 1, "pairs": 2 * int(rng.integers(1, 3))}.get(shape, int(rng.integers(2, 5)))
        most = {"part": 1, "nodes": 1, "tasks": None, "pairs": 2}[shape]
        few = max(threads, int(node.cores) // (1 if most == 1 else 2))
        gpus = None
        if node.gpus and rng.random() < 0.5:
            kind = str(rng.choice(node.gpus))
            gpus = Gpus(int(rng.integers(1, node.gpus.count(kind) + 1)), types=frozenset({kind}))
        found = Request(
            chunks=chunks,
            cores=threads * int(rng.integers(1, few // threads + 1)),
            memory_mib=int(rng.integers(1, node.memory_mib // (1 if most == 1 else 2))),
            gpus=gpus,
            others={"nvme": 1} if most == 1 and node.others and rng.random() < 0.3 else {},
            most_on_node=most,
            exclusive=bool(rng.random() < 0.05),
            features=frozenset({"fast"} if "fast" in node.features and rng.random() < 0.2 else ()),
            partitions=frozenset({"batch"}),
            site_resources={"matlab": int(rng.integers(1, 3))} if rng.random() < 0.1 else {},
        )
        if cluster.unsatisfied(found) is None:
            return found


def random_log(rng: np.random.Generator, cluster: SiteNodes, n_jobs: int) -> JobLog:
    rows: list[tuple[int, ...]] = []
    requests: list[Request] = []
    begins_s = 0
    for k in range(n_jobs):
        if k % JOBS_AT_A_TIME == 0:
            begins_s = 100 + max((row[1] + 20 * 1000 for row in rows), default=0)
        run_s = int(rng.integers(50, 1000))
        rows.append((k, begins_s + int(rng.integers(100)), run_s, 1, 60 * (1 + run_s // 30), 1, k))
        requests.append(random_request(rng, cluster))
    jobs = pl.DataFrame(rows, {**SCHEMA, "request": pl.Int64}, orient="row").sort("submit_s", "job")
    classes = ("any",) * n_jobs
    return JobLog(
        "random", jobs, cluster.cores, cluster=cluster, requests=tuple(requests), job_classes=classes
    )


def configured(cluster: SiteNodes, path: Path) -> str:
    """The name of the controller that serves this cluster's nodes in their order, as ours does."""
    lines = [
        line.replace("sched/backfill", "sched/builtin")
        for line in configuration_for(cluster).lines
        if not line.startswith("NodeName=")
    ]
    for weight, (name, node) in enumerate(cluster.nodes.items(), start=1):
        alone = SiteNodes({name: node}, {}, cluster.threads)
        (line,) = (line for line in configuration_for(alone).lines if line.startswith("NodeName="))
        lines.append(f"{line} Weight={weight}")
    path.write_text("\n".join((*lines, "")))
    return f"slurm: {path} (SchedulerParameters={PARAMETERS})"


def compared(log: JobLog, found: Compared) -> None:
    """Replay a log under Slurm's controller, and add what is found."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        assert log.cluster is not None
        controller = resolve(configured(log.cluster, folder / "slurm.conf"))
        fault = Replay(log).run(controller, folder).fault  # also of the invariants
        assert fault is None, fault
        trace = read_facts(folder / TRACE)
    started = {job for _, job in of(trace, Fact.RUN_STARTED)}
    refused = trace.filter(pl.col("event") == Fact.JOB_REFUSED)
    for job, why in refused.select("job", "detail").iter_rows():
        found.excluded[f"{why}; {shape(log.requests[job])}"] += 1
        found.examples.append(f"job {job}: {log.requests[job]}")
    assert {*log.jobs["job"]} == started | {*refused["job"].to_list()}
    found.n += len(started)
    follow(trace, log, found)


EXPLAINED = PAIRS, TASKS_ON_WHOLE_NODES = (
    "at most two tasks on a node: Slurm reserves room for two on each",
    "tasks on whole nodes: Slurm wants the memory per CPU for all CPUs of a node",
)
"""Why some jobs start later under Slurm, or never."""


def shape(request: Request) -> str:
    if request.most_on_node == 2:
        return PAIRS
    if request.exclusive:
        return "whole nodes" if request.most_on_node else TASKS_ON_WHOLE_NODES
    if request.chunks == 1:
        return "part of a node"
    return "equal parts of nodes" if request.most_on_node == 1 else "tasks"


def of(trace: pl.DataFrame, fact: Fact) -> Iterator[tuple[float, int]]:
    return trace.filter(pl.col("event") == fact).select("time_s", "job").iter_rows()


def follow(trace: pl.DataFrame, log: JobLog, found: Compared) -> None:
    """Take on our nodes what Slurm has started, and note where we would start the first job that waits much
    earlier."""
    assert log.cluster is not None
    nodes = NodeResources([*log.cluster.nodes.values()], log.cluster.site_resources)
    kinds = [nodes.note_request(request) for request in log.requests]
    waiting: list[int] = []
    had_room_s: dict[int, float] = {}
    held: dict[int, Ints2] = {}

    def has_licences(job: int) -> bool:
        """Slurm passes over jobs that wait for licences."""
        return bool(log.requests[job].site_resources.get("matlab", 0) <= nodes.table.site[FREE][0])

    # Orders of one pass arrive by several connections, in any order.
    place = {job: k for k, job in enumerate(log.jobs["job"].to_list())}
    rows = sorted(
        zip(trace["time_s"], trace["event"], trace["job"], shares_in(trace["shares"]), strict=True),
        key=lambda row: (row[0], row[1] == Fact.RUN_STARTED, place[row[2]]),
    )
    for time_s, event, job, shares in rows:
        match event:
            case Fact.JOB_ARRIVED:
                waiting.append(job)
            case Fact.JOB_REFUSED:
                waiting.remove(job)
                had_room_s.pop(job, None)
            case Fact.RUN_STARTED:
                is_first = next(filter(has_licences, waiting)) == job
                waiting.remove(job)
                late_s = time_s - had_room_s.pop(job, time_s)
                if not is_first:
                    found.differ["it overtook another job"] += 1
                    found.examples.append(f"job {job} at {time_s:g} s: {log.requests[job]}")
                elif late_s > INTERVAL_S:
                    found.differ[f"Slurm waits longer; {shape(log.requests[job])}"] += 1
                    found.examples.append(f"job {job}, {late_s:g} s later: {log.requests[job]}")
                held[job] = rows_of(shares or ())
                why_not = nodes.why_not(kinds[job], log.requests[job].chunks, held[job])
                assert why_not is None, f"job {job}: {why_not}"
                nodes.state.take_all_of(kinds[job], held[job])
            case Fact.RUN_ENDED:
                nodes.state.give_all_back(kinds[job], held.pop(job))
        first = next(filter(has_licences, waiting), None)
        if first is not None and nodes.fits(kinds[first], log.requests[first].chunks):
            had_room_s.setdefault(first, time_s)


def agreement(n_clusters: int, n_jobs: int, seed: int) -> Iterator[Compared]:
    """After each cluster, all that has been found."""
    rng, found = np.random.default_rng(seed), Compared()
    for _ in range(n_clusters):
        cluster = random_cluster(rng)
        compared(random_log(rng, cluster, n_jobs), found)
        yield found


if __name__ == "__main__":
    for found in agreement(20, 100, int(sys.argv[1]) if sys.argv[1:] else 1):
        print(found, flush=True)
