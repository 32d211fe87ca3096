"""How many events per second does the simulated cluster of time-shared nodes process, by size?

Without the scheduler's decisions. Baseline: the same run with every node updated at every event.
Run with `python -m benchmarks.bench_time_shared`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.record import keep
from scheduler.model import Job, JobId, NodeSchedule
from scheduler.time_shared.loras import Loras
from scheduler.time_shared.problem import TimeSharedProblem
from sil.runs.on_time_shared import TimeSharedSystem, built_in_characterisations
from sil.runs.simulation import RunKey
from sil.studies.cisne.experiments import BENCHMARKS, SEED
from sil.world.actual_runtimes import RandomStreams
from sil.world.events import AnyEvent, EventQueue
from sil.world.machines.time_shared import SharedMachines
from sil.world.time_shared_cluster import TimeSharedCluster

JOBS_PER_NODE = 12
INTER_ARRIVAL_S_PER_NODE = 640.0
"""On 16 nodes one job in 40 s, which keeps them busy."""
SIZES = (2, 4, 8)


@dataclass
class Stopwatch:
    """A scheduler whose decision time is measured."""

    scheduler: Loras
    took_s: float = 0.0

    def schedule(self, problem: TimeSharedProblem) -> NodeSchedule:
        began = time.perf_counter()
        made = self.scheduler.schedule(problem)
        self.took_s += time.perf_counter() - began
        return made


def jobs_of(n_nodes: int) -> list[Job]:
    rng = np.random.default_rng(SEED)
    n = JOBS_PER_NODE * n_nodes
    arrivals_s = np.cumsum(rng.exponential(INTER_ARRIVAL_S_PER_NODE / n_nodes, n)).tolist()
    return [
        Job(JobId(i), str(rng.choice(BENCHMARKS)), arrival_s, n_tasks=int(rng.choice(SIZES)))
        for i, arrival_s in enumerate(arrivals_s)
    ]


def events_per_s(n_nodes: int) -> tuple[float, int]:
    """Events per second without decisions, and the number of events."""
    count = 0
    pop = EventQueue.pop

    def counting(self: EventQueue) -> tuple[float, AnyEvent]:
        nonlocal count
        count += 1
        return pop(self)

    EventQueue.pop = counting  # type: ignore[method-assign]
    try:
        watch = Stopwatch(Loras())
        cluster = TimeSharedCluster((512.0,) * n_nodes).with_local_users(0.5).with_limits(most_cpu=inf)
        jobs, known = jobs_of(n_nodes), built_in_characterisations()
        began = time.perf_counter()
        nodes = TimeSharedSystem(cluster, jobs, known, RandomStreams(SEED))
        nodes.run(watch, {}, RunKey(0, 0, "loras"))
        took_s = time.perf_counter() - began - watch.took_s
    finally:
        EventQueue.pop = pop  # type: ignore[method-assign]
    return count / took_s, count


def settling_everything(n_nodes: int) -> float:
    settle = SharedMachines._update

    def everywhere(self: SharedMachines, changed: Sequence[int], now_s: float) -> None:
        settle(self, range(n_nodes), now_s)

    SharedMachines._update = everywhere  # type: ignore[method-assign]
    try:
        return events_per_s(n_nodes)[0]
    finally:
        SharedMachines._update = settle  # type: ignore[method-assign]


def main() -> None:
    table = Table(title="Events of the simulated cluster, per second", title_justify="left")
    for name in ("nodes", "events", "events/s", "to 16 nodes", "to settling all nodes"):
        table.add_column(name, justify="right")
    events_per_s(16)
    kept, first = [], 0.0
    for n_nodes in (16, 100, 1000):
        rate, count = events_per_s(n_nodes)
        first = first or rate
        against = rate / settling_everything(n_nodes) if n_nodes < 1000 else None
        table.add_row(
            str(n_nodes),
            f"{count:,}",
            f"{rate:,.0f}",
            f"{rate / first:.2f}",
            "-" if against is None else f"{against:.1f}",
        )
        kept.append({"nodes": n_nodes, "events": count, "events_per_s": round(rate), "to_all": against})
    Console().print(table)
    Console().print(f"Kept in {keep('time_shared', SEED, kept).name}.")


if __name__ == "__main__":
    main()
