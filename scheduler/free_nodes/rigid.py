"""FCFS, SJF and EASY: an order of the queue, and a rule for backfilling."""

from __future__ import annotations

import numpy as np

from scheduler.free_nodes.kernels.passing import start_jobs
from scheduler.free_nodes.policies import Backfilling, Ordering
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.free_nodes.wait_reasons import WhyRigidJobsWait
from scheduler.model import NodeSchedule, Start
from scheduler.wait_reasons import AllOthers

WAITS = "too few nodes are free, or it would delay the first of the queue"


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

    def __init__(self, ordering: str = "fcfs", backfilling: str = "none") -> None:
        self.ordering = Ordering(ordering)
        self.backfilling = Backfilling(backfilling)
        self._ordering_code = self.ordering.code
        self._backfilling_code = self.backfilling.code
        self._room = 64
        self._started = np.empty((self._room, 4))

    def schedule(self, problem: FreeNodesProblem) -> NodeSchedule:
        nodes, now_s = problem.free_nodes, problem.now_s
        waiting, releases, free = nodes.waiting, nodes.releases, nodes.free
        at_most = waiting.n if waiting.n < free.n else free.n
        if at_most > self._room:
            self._room = 2 * at_most
            self._started = np.empty((self._room, 4))
        if releases.n + at_most > releases.capacity:
            releases.make_room(at_most)
        n_started = start_jobs(
            waiting.tree,
            releases.table,
            releases.n,
            free.n,
            now_s,
            self._ordering_code,
            self._backfilling_code,
            self._started,
        )
        in_order = free.in_order()
        starts = tuple(
            [
                Start(int(rank), in_order.next(int(size)), now_s + takes_s)
                for _, size, takes_s, rank in self._started[:n_started].tolist()
            ]
        )
        in_detail = WhyRigidJobsWait(problem, starts, self.ordering, self.backfilling)
        left = AllOthers(problem.n_jobs, starts, WAITS, in_detail)
        return NodeSchedule(starts, left)
