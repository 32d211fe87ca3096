"""Conservative backfilling: every job gets a reservation when it arrives."""

from __future__ import annotations

from math import inf

from scheduler.core.reservations import Reservations
from scheduler.free_nodes.consumable_passes import ReservingPasses
from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.free_nodes.rigid import reserved_for
from scheduler.model import JobId, NodeSchedule
from scheduler.node_resources.selection import checked_name, selection_by_name
from scheduler.wait_reasons import AllOthers

WAITS = "it has a reservation for later"


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
        nodes, now_s, n = problem.free_nodes, problem.now_s, problem.n_jobs
        if isinstance(problem, FreeNodesProblem):
            starts = problem.free_nodes.reserve(self._reserved, now_s)
            starts_s, first_s = self._reserved.of_waiting_s, self._reserved.first_reserved_s()
        else:
            if self._passes is None or self._passes.state is not nodes:
                self._passes = ReservingPasses(problem.free_nodes, selection_by_name(self.selection))
            starts = self._passes.starts(now_s)
            starts_s, first_s = self._passes.starts_s, self._passes.first_reserved_s
        reasons = AllOthers(n, starts, WAITS, lambda i: reserved_for(starts_s[i]))
        return NodeSchedule(starts, reasons, first_s if first_s < inf else None)

    @property
    def reserved_s(self) -> dict[JobId, float]:
        """The reserved start of each job that waits for identical nodes since the last pass."""
        return {JobId(job): start_s for job, start_s in self._reserved.by_job.items()}
