"""The state of identical nodes: what is free, which jobs wait, what runs hold until when."""

from __future__ import annotations

from math import inf

import numpy as np

from scheduler.core.arrays import Floats, Floats2, Ints
from scheduler.core.codes import CONSERVATIVE, FCFS
from scheduler.core.identical import IdenticalNodes
from scheduler.core.reservations import Reservations
from scheduler.free_nodes.in_use import NodesInUse, Waiting
from scheduler.model import Job, JobId, RunId, Share, Start
from scheduler.node_request import Request
from scheduler.node_set import NodeSet

SIZE, ESTIMATE_S, JOB = 1, 2, 3
"""Columns of a table of waiting jobs."""


class WaitingJobs(Waiting[IdenticalNodes]):
    """Waiting jobs in order of arrival, then id.

    Adding or starting one costs O(log n), except for adding one before others.
    """

    _last_key = -inf, -1
    """(arrival, id) of the last job."""

    def slot_at(self, i: int) -> int:
        return self._queue.slot_at(i)

    @property
    def ids(self) -> list[JobId]:
        return [JobId(int(job)) for job in self.table[:, JOB].tolist()]

    @property
    def least_size(self) -> float:
        """Smallest number of nodes requested; infinite if no job waits."""
        return self._queue.tree.least_size

    @property
    def table(self) -> Floats2:
        """(n, 4) a row for each job in order: 1, and columns SIZE, ESTIMATE_S and JOB."""
        return self._queue.tree.table

    @property
    def sizes(self) -> Floats:
        """(n,) number of nodes requested by each job, in order."""
        return np.ascontiguousarray(self.table[:, SIZE])

    @property
    def estimates_s(self) -> Floats:
        """(n,) estimated run time of each job, in order."""
        return np.ascontiguousarray(self.table[:, ESTIMATE_S])

    @property
    def shortest_first(self) -> Ints:
        """(n,) the jobs by estimated run time; ties go to the earlier arrival, then the lower id."""
        return self.estimates_s.argsort(kind="stable")

    def estimate_s(self, job: JobId) -> float:
        """Estimated run time of a waiting job."""
        return self._queue.estimate_of(self._slot_of[job])

    def add(self, job: Job, estimate_s: float) -> None:
        """Add a job that requests `job.n_tasks` nodes."""
        self.join(job, job.n_tasks, 0, estimate_s)
        key = _key(job)
        if key < self._last_key:  # it waits again, before jobs that arrived later
            in_order = sorted(self._job_in, key=lambda slot: _key(self._job_in[slot]))
            self._queue.sort_waiting(in_order)
            key = _key(self._job_in[in_order[-1]])
        self._last_key = key


def _key(job: Job) -> tuple[float, JobId]:
    return job.arrival_s, job.id


class FreeNodes(NodesInUse[IdenticalNodes]):
    """`n_nodes` identical nodes, each for one job. Read-only for schedulers; it changes over time.

    * `free`: the free nodes, `free.n` of them.
    * `waiting`: the jobs of the problem, with `sizes` and `estimates_s` as arrays in queue order.
    * `releases`: when running jobs are expected to release their nodes.
    """

    def __init__(self, n_nodes: int) -> None:
        super().__init__(n_nodes, IdenticalNodes(n_nodes))
        self.free, self.waiting = self.queue.free, WaitingJobs(self.queue)

    def wait(self, job: Job, request: Request | None, estimate_s: float, rank: int = 0) -> None:
        self.waiting.add(job, estimate_s)

    def nothing_fits(self) -> bool:
        """Whether no waiting job fits now."""
        return self.queue.nothing_fits()

    def decide(self, ordering: int, backfilling: int, now_s: float) -> tuple[Start, ...]:
        """The jobs that start by these policies, in order."""
        return self.queue.decided(ordering, backfilling, now_s)

    def reserve(self, reservations: Reservations, now_s: float) -> tuple[Start, ...]:
        """The jobs that start, in order, if each waiting job has a reservation."""
        self.queue.reservations = reservations
        return self.queue.decided(FCFS, CONSERVATIVE, now_s)

    def start(self, run: RunId, job: JobId, start: Start, now_s: float) -> tuple[Share, ...]:
        """A waiting job starts on free nodes."""
        slot, _ = self._running[run] = self.waiting.leave(job)
        self.queue.start_on(slot, NodeSet.of(start.nodes), run, now_s, start.completion_s)
        return ()

    def set_available(self, node: int, is_available: bool) -> None:
        """A node is up, or down. A run that holds it keeps it."""
        self.queue.set_available(node, is_available)
