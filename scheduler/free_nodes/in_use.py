"""What all nodes for rigid jobs have: the jobs that wait for them, and the runs that hold them until when.

A compiled queue knows jobs and runs by their slots; here they have their names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from scheduler.core.queue import Queue
from scheduler.model import Job, JobId, RunId
from scheduler.node_request import Request
from scheduler.problem import LazyJobs

Q = TypeVar("Q", bound=Queue)


class Waiting(LazyJobs, Generic[Q]):
    """Waiting jobs in order of service."""

    def __init__(self, queue: Q) -> None:
        self._queue = queue
        self._job_in: dict[int, Job] = {}
        """By slot."""
        self._slot_of: dict[JobId, int] = {}
        self._asked_i: int | None = None
        self._asked: Job | None = None
        """Cache of the last lookup: checking and carrying out a decision look the same job up again."""

    @abstractmethod
    def slot_at(self, i: int) -> int:
        """The slot of the job in position i."""

    def __len__(self) -> int:
        return self._queue.n_waiting

    def __getitem__(self, i: Any) -> Any:
        if type(i) is not int or not 0 <= i < self._queue.n_waiting:
            return super().__getitem__(i)
        return self._asked if i == self._asked_i else self.job_at(i)

    def job_at(self, i: int) -> Job:
        job = self._job_in[self.slot_at(i)]
        self._asked_i, self._asked = i, job
        return job

    def join(self, job: Job, size: int, kind: int, estimate_s: float) -> None:
        """A job waits that requests nodes, or chunks of a kind of request."""
        slot = self._queue.arrived(job.id, size, kind, estimate_s, job.arrival_s)
        self._job_in[slot], self._slot_of[job.id], self._asked_i = job, slot, None

    def leave(self, job: JobId) -> tuple[int, Job]:
        """A job starts: its slot, and the job."""
        slot, self._asked_i = self._slot_of.pop(job), None
        return slot, self._job_in.pop(slot)


class NodesInUse(ABC, Generic[Q]):
    """Nodes, the jobs that wait for them, and the runs that hold them."""

    def __init__(self, n_nodes: int, queue: Q) -> None:
        self.n_nodes, self.queue, self.releases = n_nodes, queue, queue.releases
        self._running: dict[RunId, tuple[int, Job]] = {}
        """The slot and the job of each run."""

    @abstractmethod
    def wait(self, job: Job, request: Request | None, estimate_s: float, rank: int = 0) -> None:
        """Queue a job; `rank` is that of its queue, 0 for the one served first. Identical nodes have one
        queue, and look at no request."""

    def release(self, run: RunId, now_s: float) -> None:
        """A run is about to end; if that was expected, its nodes are free already."""
        self.queue.released(self._running[run][0], now_s)

    def is_due(self, run: RunId, now_s: float) -> bool:
        """Whether a run holds nodes and is expected to end now."""
        return run in self._running and self.queue.is_due(self._running[run][0], now_s)

    def holds(self, run: RunId) -> bool:
        """Whether a run holds nodes."""
        return run in self._running and self.queue.is_holding(self._running[run][0])

    def job_of(self, run: RunId) -> Job:
        return self._running[run][1]

    def end(self, run: RunId) -> tuple[Job, float]:
        """A run is over: its job, and when it began."""
        slot, job = self._running.pop(run)
        began_s = self.queue.began_at_s(slot)
        self.queue.ended(slot)
        return job, began_s

    def overdue(self, now_s: float) -> tuple[Job, float] | None:
        """The job of the first run that should have ended by now, and for how long it has run; None if there
        is none."""
        slot = self.queue.overdue(now_s)
        if slot < 0:
            return None
        _, job = self._running[RunId(self.queue.run_of(slot))]
        return job, now_s - self.queue.began_at_s(slot)

    def extend_estimate(self, takes_s: float, now_s: float) -> None:
        """The run that is `overdue` is now expected to take that long."""
        self.queue.extend_estimate(takes_s, now_s)
