"""The queue of waiting jobs, with an index in which a pass finds the jobs that may start."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from scheduler.compiled import Floats
from scheduler.free_nodes.kernels.queue_tree import (
    ESTIMATE_S,
    N_JOBS,
    SIZE,
    Tree,
    empty_tree,
    look_up_place,
    put_job,
    take_job,
)
from scheduler.model import Job, JobId
from scheduler.problem import LazyJobs

FEWEST_PLACES = 256


class WaitingJobs(LazyJobs):
    """Waiting jobs in order of arrival, then id. Appending or removing a job costs O(log n)."""

    def __init__(self) -> None:
        self.tree: Tree = empty_tree(FEWEST_PLACES)
        """For the kernels."""
        self.n = 0
        """Number of jobs."""
        self.least_size = inf
        """Smallest number of nodes requested; infinite if no job waits."""
        self._in_place: list[Job | None] = []
        self._place_of: dict[JobId, int] = {}
        self._n_places = FEWEST_PLACES
        self._last_key = (-inf, -1)
        """(arrival, id) of the last job."""
        self._asked_i: int | None = None
        self._asked: Job | None = None
        """Cache of the last lookup: checking and carrying out a decision look the same job up again."""

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: Any) -> Any:
        if type(i) is not int or not 0 <= i < self.n:
            return super().__getitem__(i)
        return self._asked if i == self._asked_i else self.job_at(i)

    def job_at(self, i: int) -> Job:
        job = self._in_place[look_up_place(self.tree, i)]
        assert job is not None
        self._asked_i, self._asked = i, job
        return job

    @property
    def n_places(self) -> int:
        """The first place in the tree that no job has had."""
        return len(self._in_place)

    @property
    def table(self) -> Tree:
        """(n, 4) a row for each job in order: columns SIZE, ESTIMATE_S and JOB of the tree's leaves."""
        leaves = self.tree[self._n_places :]
        return np.ascontiguousarray(leaves[leaves[:, N_JOBS] > 0])

    @property
    def sizes(self) -> Floats:
        """(n,) number of nodes requested by each job, in order."""
        return np.ascontiguousarray(self.table[:, SIZE])

    @property
    def estimates_s(self) -> Floats:
        """(n,) estimated run time of each job, in order."""
        return np.ascontiguousarray(self.table[:, ESTIMATE_S])

    def add(self, job: Job, estimate_s: float) -> None:
        """Add a job that requests `job.n_tasks` nodes."""
        number = job.id
        key = job.arrival_s, number
        if key < self._last_key:
            self._rebuild((job, estimate_s))  # it waits again, before jobs that arrived later
            return
        place = len(self._in_place)
        if place == self._n_places:
            self._rebuild()
            place = len(self._in_place)
        self.least_size = put_job(self.tree, place, number, job.n_tasks, estimate_s)
        self._place_of[number] = place
        self._in_place.append(job)
        self._last_key = key
        self.n += 1

    def remove(self, job: JobId) -> None:
        place = self._place_of.pop(job)
        self._in_place[place] = None
        self._asked_i = None
        self.least_size = take_job(self.tree, place)
        self.n -= 1

    def estimate_s(self, job: JobId) -> float:
        """Estimated run time of a waiting job."""
        return float(self.tree[self._n_places + self._place_of[job], ESTIMATE_S])

    def _rebuild(self, *added: tuple[Job, float]) -> None:
        """Rebuild the tree with more jobs, and at least half of its positions free."""
        waiting = [*((job, self.estimate_s(job.id)) for job in self), *added]
        waiting.sort(key=lambda pair: (pair[0].arrival_s, pair[0].id))
        capacity = FEWEST_PLACES
        while capacity < 2 * len(waiting):
            capacity *= 2
        self.tree = empty_tree(capacity)
        self.n, self._n_places, self.least_size = 0, capacity, inf
        self._in_place = []
        self._place_of = {}
        self._last_key, self._asked_i = (-inf, -1), None
        for job, estimate_s in waiting:
            self.add(job, estimate_s)
