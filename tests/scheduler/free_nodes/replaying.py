"""A few jobs through the real queue manager on a machine whose time is fake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import polars as pl

from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.free_nodes.rigid import Conservative, Rigid
from scheduler.free_nodes.runtime_estimates import UserEstimates
from scheduler.managers.rigid_allocation import RigidAllocation
from scheduler.managers.starting_manager import NodeManager
from scheduler.model import JobId, NodeSchedule
from scheduler.ports import AnyScheduler, RuntimeEstimator
from scheduler.resource_manager import OnFreeNodes
from sil.trace.recorder import TraceRecorder
from sil.workload.arrivals import LoggedRuns
from sil.workload.job_log import SCHEMA
from sil.world.events import ORDERS, EventQueue, Rounds, SimClock
from sil.world.harness import World
from sil.world.machines.nodes import SpaceSharedMachines
from sil.world.monitors import SimMonitor

Row = tuple[int, float, float, int, float]
"""Job, submission, run time, nodes, estimate."""


def log_of(rows: Sequence[Row]) -> pl.DataFrame:
    """All jobs are of one user, in order of submission, then of number."""
    return pl.DataFrame([(*row, 1) for row in rows], schema=SCHEMA, orient="row").sort("submit_s", "job")


def replayed(
    scheduler: AnyScheduler,
    rows: Sequence[Row],
    n_nodes: int,
    order: str = "default",
    run_times: RuntimeEstimator | None = None,
) -> dict[int, float]:
    """job -> when it starts"""
    clock, events, trace = SimClock(), EventQueue(ORDERS[order]), TraceRecorder()
    runs = LoggedRuns(log_of(rows))
    machines = SpaceSharedMachines(n_nodes, lambda job, _: runs.run_s(job), events)
    world = World(clock, events, trace, machines, SimMonitor(clock), Rounds())
    ports = OnFreeNodes(clock, world.dispatcher, n_nodes, run_times or UserEstimates())
    nodes = RigidAllocation(ports)
    manager = NodeManager(ports, nodes, scheduler, memoryless=isinstance(scheduler, Rigid))
    world.run(runs.arrivals(), manager)
    started = trace.frame(0, 0, "any").filter(pl.col("event") == "run_started")
    return dict(started.select("job", "time_s").iter_rows())


class Reserves(Protocol):
    @property
    def reserved_s(self) -> dict[JobId, float]: ...

    def schedule(self, problem: FreeNodesProblem) -> NodeSchedule: ...


class RecordsReservations:
    """Conservative backfilling, and what it had promised after each pass."""

    def __init__(self, conservative: Reserves | None = None) -> None:
        self._conservative = conservative or Conservative()
        self.passes: list[tuple[float, dict[JobId, float]]] = []
        """When, and job -> start of those that wait."""

    def schedule(self, problem: FreeNodesProblem) -> NodeSchedule:
        schedule = self._conservative.schedule(problem)
        self.passes.append((problem.now_s, self._conservative.reserved_s))
        return schedule
