"""Wait reasons of rigid jobs after a pass."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from scheduler.compiled import Floats
from scheduler.free_nodes.policies import Backfilling, Ordering
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.model import Start


class WhyRigidJobsWait:
    """Reasons of FCFS, SJF and EASY, computed on request, before the state changes."""

    def __init__(
        self,
        problem: FreeNodesProblem,
        starts: Sequence[Start],
        ordering: Ordering,
        backfilling: Backfilling,
    ) -> None:
        self._problem = problem
        self._placements = starts
        self._ordering = ordering
        self._backfilling = backfilling

    def __call__(self, i: int) -> str:
        size, n_free = int(self._sizes[i]), self._n_free
        room = f"it requests {size} {'node' if size == 1 else 'nodes'}, {n_free} free"
        if i == self._first:
            first = f"first of the queue: {room}"
            return first if self._backfilling is Backfilling.NONE else f"{first}; {self._reserved}"
        if size > n_free:
            return room
        job = self._problem.jobs[self._first].id
        if self._backfilling is Backfilling.NONE:
            return f"{room}; but job {job} comes first"
        return f"{room}; but it would delay job {job}, which is {self._reserved}"

    @cached_property
    def _sizes(self) -> Floats:
        return self._problem.free_nodes.waiting.sizes

    @cached_property
    def _n_free(self) -> int:
        return self._problem.free_nodes.free.n - sum(len(start.nodes) for start in self._placements)

    @cached_property
    def _first(self) -> int:
        """Index of the first waiting job."""
        placed = {start.job for start in self._placements}
        waiting = [i for i in range(self._problem.n_jobs) if i not in placed]
        if self._ordering is Ordering.FCFS:
            return waiting[0]
        estimates_s = self._problem.free_nodes.waiting.estimates_s
        return min(waiting, key=lambda i: (estimates_s[i], i))

    @cached_property
    def _reserved(self) -> str:
        """When enough nodes are expected to be free for the first job."""
        releases = self._problem.free_nodes.releases
        started = [(start.completion_s, len(start.nodes)) for start in self._placements]
        ends_s = np.append(releases.ends_s, [end_s for end_s, _ in started])
        order = np.argsort(ends_s, kind="stable")
        given_back = np.append(releases.sizes, [n for _, n in started])[order].cumsum()
        enough = np.searchsorted(self._n_free + given_back, self._sizes[self._first])
        if enough == len(order):
            return "reserved for when more nodes are up"
        return f"reserved for {max(ends_s[order][enough], self._problem.now_s):.10g} s"
