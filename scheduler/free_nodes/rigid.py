"""FCFS, SJF and EASY: an order of the queue, and a rule for backfilling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from scheduler.compiled import Floats
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.messages import counted
from scheduler.model import JobId, NodeSchedule, Start
from scheduler.naming import Choice
from scheduler.node_resources.selection import checked_name
from scheduler.wait_reasons import AllOthers

if TYPE_CHECKING:
    from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem
    from scheduler.free_nodes.consumable_scheduling import ConsumableScheduling

WAITS = "too few nodes are free, or it would delay the first of the queue"


class Ordering(Choice, noun="job ordering"):
    """The order of each queue; ties go to the earlier arrival, then the lower id."""

    FCFS = "fcfs"  # first come, first served
    SJF = "sjf"  # shortest job first, by estimate


class Backfilling(Choice, noun="backfilling"):
    """Which jobs may overtake the first of the queue."""

    NONE = "none"
    EASY = "easy"  # jobs that do not delay it according to the estimates, tried in order of service
    EASY_SJBF = "easy_sjbf"  # the same, tried shortest first


_BACKFILLED = {Backfilling.NONE: None, Backfilling.EASY: "in order", Backfilling.EASY_SJBF: "shortest first"}


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
        self._consumable: ConsumableScheduling | None = None
        self._ordering_code = self.ordering.code
        self._backfilling_code = self.backfilling.code

    def schedule(self, problem: FreeNodesProblem | ConsumableNodesProblem) -> NodeSchedule:
        if not isinstance(problem, FreeNodesProblem):
            return self._on_consumable(problem)
        starts = problem.free_nodes.decide(self._ordering_code, self._backfilling_code, problem.now_s)
        in_detail = _WaitReasons(problem, starts, self.ordering, self.backfilling)
        left = AllOthers(problem.n_jobs, starts, WAITS, in_detail)
        return NodeSchedule(starts, left)

    @staticmethod
    def load_for_requests() -> None:
        import_module("scheduler.free_nodes.consumable_scheduling")

    def _on_consumable(self, problem: ConsumableNodesProblem) -> NodeSchedule:
        nodes = problem.free_nodes  # before anything is loaded: a problem of another kind has none
        # Compiled code that identical nodes do without.
        from scheduler.free_nodes.consumable_scheduling import ConsumableScheduling
        from scheduler.node_resources.selection import selection_by_name

        if self._consumable is None or self._consumable.state is not nodes:
            self._consumable = ConsumableScheduling(nodes, selection_by_name(self.selection))
        return self._consumable.schedule(
            problem, self.ordering is Ordering.SJF, _BACKFILLED[self.backfilling]
        )


@dataclass(eq=False)
class _WaitReasons:
    """Computed on request, before the state changes."""

    problem: FreeNodesProblem
    starts: Sequence[Start]
    ordering: Ordering
    backfilling: Backfilling

    def __call__(self, i: int) -> str:
        size = int(self._sizes[i])
        return self._of_first(size) if i == self._first else self._of_another(size)

    def of_all(self) -> list[str]:
        """For each job; those that request as many nodes have one reason."""
        sizes, size_of = np.unique(self._sizes, return_inverse=True)
        reasons = [self._of_another(int(size)) for size in sizes]
        found = [reasons[k] for k in size_of.tolist()]
        found[self._first] = self(self._first)
        return found

    def _room(self, size: int) -> str:
        return f"it requests {counted(size, 'node')}, {self._n_free} free"

    def _of_first(self, size: int) -> str:
        first = f"first of the queue: {self._room(size)}"
        return first if self.backfilling is Backfilling.NONE else f"{first}; {self._reserved}"

    def _of_another(self, size: int) -> str:
        room, n_free = self._room(size), self._n_free
        if size > n_free:
            return room
        job = self._first_id
        if self.backfilling is Backfilling.NONE:
            return f"{room}; but job {job} comes first"
        return f"{room}; but it would delay job {job}, which is {self._reserved}"

    @cached_property
    def _sizes(self) -> Floats:
        return self.problem.free_nodes.waiting.sizes

    @cached_property
    def _n_free(self) -> int:
        return self.problem.free_nodes.free.n - sum(len(start.nodes) for start in self.starts)

    @cached_property
    def _first_id(self) -> JobId:
        return self.problem.jobs[self._first].id

    @cached_property
    def _first(self) -> int:
        """Index of the first waiting job."""
        placed = {start.job for start in self.starts}
        if self.ordering is Ordering.FCFS:
            return next(i for i in range(self.problem.n_jobs) if i not in placed)
        estimates_s = self.problem.free_nodes.waiting.estimates_s.copy()
        estimates_s[list(placed)] = np.inf
        return int(estimates_s.argmin())

    @cached_property
    def _reserved(self) -> str:
        """When enough nodes are expected to be free for the first job."""
        releases = self.problem.free_nodes.releases
        started = [(start.completion_s, len(start.nodes)) for start in self.starts]
        ends_s = np.append(releases.ends_s, [end_s for end_s, _ in started])
        order = np.argsort(ends_s, kind="stable")
        given_back = np.append(releases.sizes, [n for _, n in started])[order].cumsum()
        enough = np.searchsorted(self._n_free + given_back, self._sizes[self._first])
        if enough == len(order):
            return "reserved for when more nodes are up"
        return f"reserved for {max(ends_s[order][enough], self.problem.now_s):,.10g} s"
