"""The queue of waiting jobs."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from scheduler.compiled import Floats, Floats2
from scheduler.free_nodes.kernels.one_at_a_time import arrived, place_of
from scheduler.free_nodes.kernels.queue_tree import ESTIMATE_S, JOB, N_JOBS, SIZE
from scheduler.free_nodes.kernels.queues import N_WAITING
from scheduler.free_nodes.queues.growing import GrowingQueue
from scheduler.free_nodes.queues.identical import larger_rigid_queue, sort_waiting
from scheduler.model import Job, JobId
from scheduler.problem import LazyJobs


class WaitingJobs(LazyJobs):
    """Waiting jobs in order of arrival, then id.

    Adding or starting one costs O(log n), except for adding one before others.
    """

    def __init__(self, queue: GrowingQueue) -> None:
        self._queue = queue
        self._job_in: dict[int, Job] = {}
        """By slot."""
        self._slot_of: dict[JobId, int] = {}
        self._last_key = (-inf, -1)
        """(arrival, id) of the last job."""
        self._asked_i: int | None = None
        self._asked: Job | None = None
        """Cache of the last lookup: checking and carrying out a decision look the same job up again."""

    def __len__(self) -> int:
        return self._queue.counts[N_WAITING]

    def __getitem__(self, i: Any) -> Any:
        if type(i) is not int or not 0 <= i < self._queue.counts[N_WAITING]:
            return super().__getitem__(i)
        return self._asked if i == self._asked_i else self.job_at(i)

    def job_at(self, i: int) -> Job:
        arrays = self._queue.arrays
        job = self._job_in[arrays.slot.item(place_of(arrays.tree, i))]
        self._asked_i, self._asked = i, job
        return job

    @property
    def ids(self) -> list[JobId]:
        return [JobId(int(job)) for job in self.table[:, JOB].tolist()]

    @property
    def least_size(self) -> float:
        """Smallest number of nodes requested; infinite if no job waits."""
        return self._queue.arrays.tree.item(1, SIZE)

    @property
    def table(self) -> Floats2:
        """(n, 4) a row for each job in order: columns SIZE, ESTIMATE_S and JOB of the tree's leaves."""
        tree = self._queue.arrays.tree
        leaves = tree[len(tree) // 2 :]
        return np.ascontiguousarray(leaves[leaves[:, N_JOBS] > 0])

    @property
    def sizes(self) -> Floats:
        """(n,) number of nodes requested by each job, in order."""
        return np.ascontiguousarray(self.table[:, SIZE])

    @property
    def estimates_s(self) -> Floats:
        """(n,) estimated run time of each job, in order."""
        return np.ascontiguousarray(self.table[:, ESTIMATE_S])

    def estimate_s(self, job: JobId) -> float:
        """Estimated run time of a waiting job."""
        arrays = self._queue.arrays
        return float(arrays.tree[len(arrays.tree) // 2 + arrays.place[self._slot_of[job]], ESTIMATE_S])

    def add(self, job: Job, estimate_s: float) -> None:
        """Add a job that requests `job.n_tasks` nodes."""
        queue = self._queue
        while (slot := arrived(queue.handle, job.id, job.n_tasks, estimate_s, job.arrival_s)) < 0:
            queue.replace(larger_rigid_queue(queue.arrays, -slot))
        self._job_in[slot], self._slot_of[job.id], self._asked_i = job, slot, None
        key = _key(job)
        if key < self._last_key:  # it waits again, before jobs that arrived later
            in_order = sorted(self._job_in, key=lambda slot: _key(self._job_in[slot]))
            sort_waiting(queue.arrays, in_order)
            key = _key(self._job_in[in_order[-1]])
        self._last_key = key

    def leave(self, job: JobId) -> tuple[int, Job]:
        """A job starts: its slot, and the job."""
        slot, self._asked_i = self._slot_of.pop(job), None
        return slot, self._job_in.pop(slot)


def _key(job: Job) -> tuple[float, JobId]:
    return job.arrival_s, job.id
