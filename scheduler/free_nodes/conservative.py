"""Conservative backfilling: every job gets a reservation when it arrives."""

from __future__ import annotations

from importlib import import_module
from math import inf
from typing import TYPE_CHECKING

from scheduler.free_nodes.arrays import FEWEST, new_reservations, with_room
from scheduler.free_nodes.kernels.backfilling import FCFS
from scheduler.free_nodes.kernels.queues import CONSERVATIVE
from scheduler.free_nodes.kernels.reservations import N_RESERVED
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.model import JobId, NodeSchedule
from scheduler.node_resources.selection import checked_name
from scheduler.wait_reasons import AllOthers

if TYPE_CHECKING:
    from scheduler.free_nodes.consumable_conservative import Reservations
    from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem

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
    a queue give way to those of queues served before it. See `node_resources/kernels/reserving.py`.
    """

    def __init__(self, selection: str = "first_fit") -> None:
        """`selection` chooses among nodes that differ; identical ones are taken from the lowest number on."""
        self.selection = checked_name(selection)
        self._of_nodes: Reservations | None = None
        self._reserved = new_reservations(FEWEST, FEWEST)

    def schedule(self, problem: FreeNodesProblem | ConsumableNodesProblem) -> NodeSchedule:
        if not isinstance(problem, FreeNodesProblem):
            return self._on_consumable(problem)
        nodes, n = problem.free_nodes, problem.n_jobs
        if nodes.most_jobs > len(self._reserved.jobs):
            self._reserved = with_room(self._reserved, nodes.most_jobs, nodes.most_jobs)
        r = self._reserved
        starts = nodes.decide(FCFS, CONSERVATIVE, problem.now_s, r)
        starts_s = r.new_start_s[:n].copy()
        first_s = float(r.start_s[: r.n[N_RESERVED]].min(initial=inf))
        reasons = AllOthers(n, starts, WAITS, lambda i: f"reserved for {starts_s[i]:,.10g} s")
        return NodeSchedule(starts, reasons, first_s if first_s < inf else None)

    @property
    def reserved_s(self) -> dict[JobId, float]:
        """The reserved start of each job that waits since the last pass."""
        r = self._reserved
        n = int(r.n[N_RESERVED])
        return dict(zip(map(JobId, r.jobs[:n].tolist()), r.start_s[:n].tolist(), strict=True))

    @staticmethod
    def load_for_requests() -> None:
        import_module("scheduler.free_nodes.consumable_conservative")

    def _on_consumable(self, problem: ConsumableNodesProblem) -> NodeSchedule:
        nodes = problem.free_nodes  # before anything is loaded: a problem of another kind has none
        # Compiled code that identical nodes do without.
        from scheduler.free_nodes.consumable_conservative import Reservations
        from scheduler.node_resources.selection import selection_by_name

        if self._of_nodes is None or self._of_nodes.state is not nodes:
            self._of_nodes = Reservations(nodes, selection_by_name(self.selection))
        return self._of_nodes.schedule(problem)
