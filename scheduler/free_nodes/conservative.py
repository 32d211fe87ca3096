"""Conservative backfilling: every job gets a reservation when it arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.free_nodes.kernels.queue_tree import ESTIMATE_S, JOB, SIZE
from scheduler.free_nodes.kernels.reservations import carry_over, plan
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.free_nodes.room import FreeRoom
from scheduler.model import NodeSchedule
from scheduler.node_resources.selections import checked_name
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
    a queue give way to those of queues served before it. A pass then costs O(n (N + r)) for N nodes.
    """

    def __init__(self, selection: str = "first_fit") -> None:
        """`selection` chooses among nodes that differ; identical ones are taken from the lowest number on."""
        self.selection = checked_name(selection)
        self._reservations: Reservations | None = None
        self._jobs = np.empty(0, dtype=np.int64)
        self._starts_s = np.empty(0)

    def schedule(self, problem: FreeNodesProblem | ConsumableNodesProblem) -> NodeSchedule:
        if not isinstance(problem, FreeNodesProblem):
            return self._on_consumable(problem)
        nodes, now_s = problem.free_nodes, problem.now_s
        jobs, releases = nodes.waiting.table, nodes.releases
        starts_s = np.empty(len(jobs))
        carry_over(jobs, self._jobs, self._starts_s, starts_s)
        started = np.empty(len(jobs), dtype=np.int64)
        profile = np.empty((4 * len(jobs) + releases.n + 3, 2))
        n_started = plan(
            jobs,
            np.argsort(starts_s, kind="stable"),
            starts_s,
            releases.table,
            releases.n,
            nodes.free.n,
            now_s,
            profile,
            started,
        )
        room, left = FreeRoom(problem), np.ones(len(jobs), dtype=bool)
        starts = []
        for i in started[:n_started].tolist():
            starts.append(room.take(i, int(jobs[i, SIZE]), now_s + float(jobs[i, ESTIMATE_S])))
            left[i] = False
        self._jobs, self._starts_s = jobs[left, JOB].astype(np.int64), starts_s[left]
        first_s = float(self._starts_s.min(initial=np.inf))
        reasons = AllOthers(len(jobs), starts, WAITS, lambda i: f"reserved for {starts_s[i]:,.10g} s")
        return NodeSchedule(tuple(starts), reasons, first_s if first_s < np.inf else None)

    def _on_consumable(self, problem: ConsumableNodesProblem) -> NodeSchedule:
        # Compiled code that identical nodes do without.
        from scheduler.free_nodes.consumable_conservative import Reservations
        from scheduler.node_resources.selections import selection_by_name

        if self._reservations is None or self._reservations.state is not problem.free_nodes:
            self._reservations = Reservations(problem.free_nodes, selection_by_name(self.selection))
        return self._reservations.schedule(problem)
