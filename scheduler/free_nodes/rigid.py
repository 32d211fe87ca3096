"""FCFS, SJF and EASY: an order of the queue, and a rule for backfilling; conservative backfilling; and
Slurm's scheduling, with its parameters: a main scheduler at each event, and cycles of backfilling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from inspect import signature
from math import inf
from typing import Any, cast

import numpy as np

from scheduler.core.reservations import Reservations
from scheduler.free_nodes.consumable_nodes import EasyPasses, ReservingPasses
from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem, ConsumableRoom
from scheduler.free_nodes.problem import FreeNodesProblem, FreeRoom
from scheduler.messages import UserError
from scheduler.model import JobId, NodeSchedule, Start
from scheduler.naming import Choice
from scheduler.node_resources.selection import checked_name, selection_by_name
from scheduler.priority.policy import BackfillParameters, SitePolicy
from scheduler.rules import AllOthers

WAITS = "too few nodes are free, or it would delay the first of the queue"
WAITS_ON_NODES = "it does not fit on the nodes, or it would delay the first of the queue"


class Ordering(Choice, noun="job ordering"):
    """The order of each queue; ties go to the earlier arrival, then the lower id."""

    FCFS = "fcfs"  # first come, first served
    SJF = "sjf"  # shortest job first, by estimate
    EDF = "edf"  # earliest deadline first, jobs without one last
    LEAST_LAXITY = "least_laxity"  # least time left until it has to start, by estimate, for its deadline


class Backfilling(Choice, noun="backfilling"):
    """Which jobs may overtake the first of the queue."""

    NONE = "none"
    EASY = "easy"  # jobs that do not delay it according to the estimates, tried by deadline or as they came
    EASY_SJBF = "easy_sjbf"  # the same, tried shortest first


class Rigid:
    """Rigid jobs on free nodes: in queue order while they fit, then by backfilling.

    EASY (Lifka 1995, as in Mu'alem and Feitelson 2001): the first job that does not fit has a reservation at
    the earliest time at which enough nodes are expected to be free, counting all nodes released at that time;
    the nodes left over then are spare. Another job may start if it is expected to end by then, or if it needs
    no more than the spare nodes, which it uses up. With SJBF (Tsafrir et al. 2007) these are tried shortest
    first. A pass costs O(log n) for each job that starts, plus a walk over the releases up to the reservation
    and over the free nodes assigned; in rare cases the search among n waiting jobs costs more than O(log n).
    Ties: earlier arrival, lower id; nodes with the lowest numbers.
    """

    memoryless = True

    def __init__(
        self, ordering: str = "fcfs", backfilling: str = "none", selection: str = "first_fit"
    ) -> None:
        """`selection` chooses among nodes that differ; identical ones are taken from the lowest number on."""
        self.ordering = Ordering(ordering)
        self.backfilling = Backfilling(backfilling)
        self.selection = checked_name(selection)
        self._passes: EasyPasses | None = None
        self._codes = self.ordering.code, self.backfilling.code

    def schedule(self, problem: FreeNodesProblem | ConsumableNodesProblem) -> NodeSchedule:
        nodes, now_s = problem.free_nodes, problem.now_s
        if isinstance(problem, FreeNodesProblem):
            starts = problem.free_nodes.decide(*self._codes, now_s)
            reasons = _WaitReasons(problem, starts, self, partial(_reserved_s, problem, starts))
        else:
            if self._passes is None or self._passes.state is not nodes:
                self._passes = EasyPasses(problem.free_nodes, selection_by_name(self.selection))
            starts = self._passes.starts(*self._codes, now_s)
            reserved_s = self._passes.reserved_s
            reasons = _WaitReasons(problem, starts, self, lambda _: reserved_s)
        waits = WAITS if isinstance(problem, FreeNodesProblem) else WAITS_ON_NODES
        return NodeSchedule(starts, AllOthers(problem.n_jobs, starts, waits, reasons))


def reserved_for(start_s: float) -> str:
    return f"reserved for {start_s:,.10g} s" if start_s < inf else "reserved for when more nodes are up"


@dataclass(eq=False)
class _WaitReasons:
    """Wait reasons, computed on request, before the state changes."""

    problem: FreeNodesProblem | ConsumableNodesProblem
    starts: Sequence[Start]
    by: Rigid
    reserved_s: Callable[[int], float]
    """When the first job in line, in this position, has a reservation."""

    def __call__(self, i: int) -> str:
        room = self._room.sentence(i)
        if i == self._first:
            return f"first of the queue: {room}{f'; {self._reserved}' if self._reserved else ''}"
        if not self._room.fits(i) or self._first is None:
            return room
        job = self.problem.jobs[self._first].id
        if not self._reserved:
            return f"{room}; but job {job} comes first"
        return f"{room}; but it would delay job {job}, which is {self._room.FIRST}{self._reserved}"

    def of_all(self) -> list[str]:
        """The reason for each job; jobs with equal requests share one."""
        reasons, found = dict[object, str](), list[str]()
        for i, request in enumerate(self._room.requests()):
            if i == self._first:
                found.append(self(i))
                continue
            if request not in reasons:
                reasons[request] = self(i)
            found.append(reasons[request])
        return found

    @cached_property
    def _room(self) -> FreeRoom | ConsumableRoom:
        """What is left once the jobs have started."""
        room = self.problem.room()
        for start in self.starts:
            room.take(start)
        return room

    @cached_property
    def _first(self) -> int | None:
        """The first job that waits for nodes; None if all wait for limits."""
        started = {start.job for start in self.starts}
        in_order: Iterable[int] = range(self.problem.n_jobs)
        if self.by.ordering is not Ordering.FCFS:
            in_order = map(int, self.problem.free_nodes.waiting.in_order_of(self.by.ordering.code))
        return next((i for i in in_order if i not in started and self._room.limit(i) is None), None)

    @cached_property
    def _reserved(self) -> str:
        """The clause about the reservation; empty without backfilling."""
        if self._first is None or self.by.backfilling is Backfilling.NONE:
            return ""
        return reserved_for(self.reserved_s(self._first))


def _reserved_s(problem: FreeNodesProblem, starts: Sequence[Start], i: int) -> float:
    """When enough nodes are expected to be free for job i; infinite if too few are up."""
    nodes = problem.free_nodes
    ends_s = np.append(nodes.releases.ends_s, [start.completion_s for start in starts])
    order = np.argsort(ends_s, kind="stable")
    sizes = np.append(nodes.releases.sizes, [len(start.nodes) for start in starts])[order]
    n_free = nodes.free.n - sum(len(start.nodes) for start in starts)
    enough = np.searchsorted(n_free + sizes.cumsum(), problem.jobs[i].n_tasks)
    return inf if enough == len(order) else max(float(ends_s[order][enough]), problem.now_s)


RESERVED = "it has a reservation for later"


def planned(
    problem: FreeNodesProblem | ConsumableNodesProblem,
    starts: Sequence[Start],
    starts_s: Sequence[float],
    again_s: float,
    unplanned: str = "",
) -> NodeSchedule:
    """A schedule with the reserved start of each job, infinite without one; it is to be asked again."""

    def why(i: int) -> str:
        is_unplanned = unplanned and starts_s[i] == inf
        return problem.in_line(i, starts, unplanned if is_unplanned else reserved_for(starts_s[i]))

    others = AllOthers(problem.n_jobs, starts, unplanned or RESERVED, why)
    return NodeSchedule(starts, others, again_s if again_s < inf else None)


class Conservative:
    """Conservative backfilling: reserves for each job, delaying none before it.

    Every pass moves the reservations, in queue order, each to the earliest time that the others leave free:
    none slips, unless a run exceeds its estimate or a node fails. It asks to be called at the first one.
    O(n (n + r)) per pass for n waiting and r running jobs. Ties: earlier arrival, lower id; nodes with the
    lowest numbers. Source: Feitelson and Weil 1998; Mu'alem and Feitelson 2001, in whose version reservations
    move only when a run ends early.

    On consumable nodes a reservation names nodes and GPUs, by the node selection: it begins at the earliest
    time from which enough nodes have what the job requests throughout its estimated run time, beside all runs
    and all other reservations. It changes nodes only to begin earlier, or if one is taken from it. Those of
    a queue give way to those of queues served before it. See `node_resources/core/reserving.py`.
    """

    def __init__(self, selection: str = "first_fit") -> None:
        """`selection` chooses among nodes that differ; identical ones are taken from the lowest number on."""
        self.selection = checked_name(selection)
        self._passes: ReservingPasses | None = None
        self._reserved = Reservations()

    def schedule(self, problem: FreeNodesProblem | ConsumableNodesProblem) -> NodeSchedule:
        nodes, now_s = problem.free_nodes, problem.now_s
        if isinstance(problem, FreeNodesProblem):
            starts = problem.free_nodes.reserve(self._reserved, now_s)
            starts_s, first_s = self._reserved.of_waiting_s, self._reserved.first_reserved_s()
        else:
            if self._passes is None or self._passes.state is not nodes:
                self._passes = ReservingPasses(problem.free_nodes, selection_by_name(self.selection))
            starts = self._passes.starts(now_s)
            starts_s, first_s = self._passes.starts_s, self._passes.asks_again_s
        return planned(problem, starts, starts_s, first_s)

    @property
    def reserved_s(self) -> dict[JobId, float]:
        """The reserved start of each job that waits for identical nodes since the last pass."""
        return {JobId(job): start_s for job, start_s in self._reserved.by_job.items()}


UNPLANNED = (
    "it does not fit on the nodes, or would delay jobs that were planned before it, if backfilling tests it"
)


class SlurmBackfill:
    """Slurm's main and backfill schedulers on nodes with CPUs, memory and GPUs.

    The main scheduler starts jobs in order at each event; in each pool of nodes that partitions share, only
    until one does not fit. Every `bf_interval`, if something has happened, backfilling makes a new plan: each
    job it tests gets the earliest start within `bf_window` that runs and reservations before it leave, and
    starts if that is now. Decisions take no time. Cost: see `node_resources/core/two_passes.py`.
    """

    __signature__ = signature(BackfillParameters, eval_str=True)

    def __init__(self, **given: Any) -> None:
        """`given`: some of `BackfillParameters`."""
        self._given, self._passes = given, cast("ReservingPasses | None", None)
        self.selection = checked_name(self.parameters(None).selection)

    def parameters(self, policy: SitePolicy | None) -> BackfillParameters:
        """Those given, else those of the site's `slurm.conf`, else Slurm's defaults. Raises ValueError."""
        stated: dict[str, Any] = {} if policy is None else {**policy.scheduling}
        return BackfillParameters(**(stated | self._given))

    def schedule(self, problem: FreeNodesProblem | ConsumableNodesProblem) -> NodeSchedule:
        if isinstance(problem, FreeNodesProblem):
            raise UserError("slurm_backfill schedules nodes with CPUs, and not identical processors")
        nodes = problem.free_nodes
        if self._passes is None or self._passes.state is not nodes:
            how = self.parameters(None if nodes.claims is None else nodes.claims.policy)
            self._passes = ReservingPasses(nodes, selection_by_name(self.selection), how)
        starts, again_s = self._passes.starts(problem.now_s), self._passes.asks_again_s
        return planned(problem, starts, self._passes.starts_s, again_s, UNPLANNED)
