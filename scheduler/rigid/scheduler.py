"""FCFS, SJF and EASY: an order of the queue, and who may overtake its first."""

from __future__ import annotations

import numpy as np

from scheduler.model import Schedule
from scheduler.problem import SchedulingProblem
from scheduler.rigid.free_nodes import FreeNodes, Placing
from scheduler.rigid.kernels.passing import start_jobs
from scheduler.rigid.policies import Backfilling, Ordering

WAITS = "too few nodes are free, or it would delay the first of the queue"


class Rigid:
    """Starts rigid jobs on free nodes: from the head of the queue while they fit, then by backfilling.

    EASY (Lifka 1995, as in Mu'alem and Feitelson 2001): the first that does not fit is reserved the earliest
    moment at which, by what is believed, enough nodes are free, counting all that are released at that same
    moment; nodes that are left over then are spare. Another job may start if it ends by then, or needs no
    more than the spare nodes, which it then uses up. With SJBF (Tsafrir et al. 2007) these are tried shortest
    first. A pass costs O(log n) for each job that starts, and a walk over the releases up to the reservation;
    in rare cases the search among n waiting jobs costs more than O(log n). Ties: earlier arrival, lower id;
    nodes of the lowest number.
    """

    memoryless = True

    def __init__(self, ordering: str = "fcfs", backfilling: str = "none") -> None:
        self.ordering = Ordering(ordering)
        self.backfilling = Backfilling(backfilling)
        self._codes = self.ordering.code, self.backfilling.code
        self._started = np.empty((64, 4))

    def schedule(self, problem: SchedulingProblem) -> Schedule:
        nodes, now_s = problem.free_nodes, problem.now_s
        placing = Placing(problem)
        for _, size, takes_s, rank in self._pass(nodes, now_s):
            placing.start_with(int(rank), int(size), now_s + takes_s)
        return placing.schedule(WAITS)

    def _pass(self, nodes: FreeNodes, now_s: float) -> list[list[float]]:
        """One row for each job that starts, in order."""
        waiting, releases, n_free = nodes.waiting, nodes.releases, nodes.free.n
        at_most = min(waiting.n, n_free)
        if releases.n + at_most > releases.capacity:
            releases.make_room(at_most)
        if at_most > len(self._started):
            self._started = np.empty((2 * at_most, 4))
        n_started = start_jobs(
            waiting.tree, releases.table, releases.n, n_free, now_s, *self._codes, self._started
        )
        rows: list[list[float]] = self._started[:n_started].tolist()
        return rows
