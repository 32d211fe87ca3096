"""The state of nodes for rigid jobs, here of identical ones: what is free, which jobs wait, what runs hold
until when.

A compiled queue knows jobs and runs by their slots; here they have their names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from scheduler.core.arrays import Floats, Floats2, Ints
from scheduler.core.codes import CONSERVATIVE, EDF, FCFS
from scheduler.core.identical import IdenticalNodes
from scheduler.core.queue import Queue
from scheduler.core.reservations import Reservations
from scheduler.model import Job, JobId, RunId, Share, Start
from scheduler.node_request import Request
from scheduler.node_set import NodeSet
from scheduler.problem import LazyJobs

Q = TypeVar("Q", bound=Queue)


class Waiting(LazyJobs, Generic[Q]):
    """Waiting jobs in order of service."""

    def __init__(self, queue: Q) -> None:
        self._queue = queue
        self._job_in: dict[int, Job] = {}
        """The waiting jobs by slot."""
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

    def forget_asked(self) -> None:
        """The jobs may have changed places."""
        self._asked_i = None

    def join(self, job: Job, size: int, kind: int, estimate_s: float) -> None:
        """Queue a job that requests nodes, or chunks of a kind of request."""
        self._queue.next_due_s = job.deadline_s
        slot = self._queue.arrived(job.id, size, kind, estimate_s, job.arrival_s)
        self._job_in[slot], self._slot_of[job.id], self._asked_i = job, slot, None

    def leave(self, job: JobId) -> tuple[int, Job]:
        """Remove a job that starts. Returns its slot, and the job."""
        slot, self._asked_i = self._slot_of.pop(job), None
        return slot, self._job_in.pop(slot)

    def withdraw(self, job: JobId) -> Job | None:
        """Remove a job that is not to start; None if it does not wait."""
        if job not in self._slot_of:
            return None
        slot, found = self.leave(job)
        self._queue.withdraw(slot)
        return found


class NodesInUse(ABC, Generic[Q]):
    """Nodes, the jobs that wait for them, and the runs that hold them."""

    def __init__(self, n_nodes: int, queue: Q) -> None:
        self.n_nodes, self.queue, self.releases = n_nodes, queue, queue.releases
        self._running: dict[RunId, tuple[int, Job]] = {}
        """The slot and the job of each run."""

    @abstractmethod
    def wait(self, job: Job, request: Request | None, estimate_s: float, rank: int = 0) -> None:
        """Queue a job; `rank` is that of its queue, 0 for the one served first. Identical nodes have one
        queue, and ignore requests."""

    def set_in_order(self, now_s: float) -> None:
        """Bring the order of the waiting jobs up to date."""

    def nothing_fits(self) -> bool:
        """Whether no waiting job fits now."""
        return self.queue.nothing_fits()

    def release(self, run: RunId, now_s: float) -> None:
        """Free the nodes of a run that is about to end; if that was expected, they are free already."""
        self.queue.released(self._running[run][0], now_s)

    def is_due(self, run: RunId, now_s: float) -> bool:
        """Whether a run holds nodes and is expected to end now."""
        return run in self._running and self.queue.is_due(self._running[run][0], now_s)

    def holds(self, run: RunId) -> bool:
        """Whether a run holds nodes."""
        return run in self._running and self.queue.is_holding(self._running[run][0])

    def slot_of(self, run: RunId) -> int:
        return self._running[run][0]

    def start_of(self, run: RunId, nodes: Sequence[int]) -> tuple[Start, float]:
        """How a run on some nodes goes on as expected, and when it began."""
        slot, _ = self._running[run]
        return Start(0, nodes, float(self.queue.end_s[slot])), self.queue.began_at_s(slot)

    def job_of(self, run: RunId) -> Job:
        return self._running[run][1]

    def end(self, run: RunId, now_s: float) -> tuple[Job, float]:
        """End a run. Returns its job, and when it began."""
        slot, job = self._running.pop(run)
        began_s = self.queue.began_at_s(slot)
        self.queue.ended(slot, now_s)
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
        """Expect the `overdue` run to take `takes_s`."""
        self.queue.extend_estimate(takes_s, now_s)


SIZE, ESTIMATE_S, JOB = 1, 2, 3
"""Columns of a table of waiting jobs."""


class WaitingJobs(Waiting[IdenticalNodes]):
    """Waiting jobs in order of arrival, then id.

    Adding or starting one costs O(log n), except for adding one before others.
    """

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

    def in_order_of(self, ordering: int) -> Ints:
        """(n,) the jobs by an ordering; ties go to the earlier arrival, then the lower id."""
        keys = self.estimates_s
        if ordering >= EDF:
            tree = self._queue.tree
            waits = np.asarray(tree.n_jobs)[tree.capacity :] > 0
            keys = np.asarray(self._queue.urgency(ordering))[np.asarray(tree.slot)[waits]]
        return keys.argsort(kind="stable")

    def estimate_s(self, job: JobId) -> float:
        """Estimated run time of a waiting job."""
        return self._queue.estimate_of(self._slot_of[job])


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
        self.waiting.join(job, job.n_tasks, 0, estimate_s)

    def decide(self, ordering: int, backfilling: int, now_s: float) -> tuple[Start, ...]:
        """The jobs that start by these policies, in order."""
        return self.queue.decided(ordering, backfilling, now_s)

    def reserve(self, reservations: Reservations, now_s: float) -> tuple[Start, ...]:
        """The jobs that start, in order, if each waiting job has a reservation."""
        self.queue.reservations = reservations
        return self.queue.decided(FCFS, CONSERVATIVE, now_s)

    def start(self, run: RunId, job: JobId, start: Start, now_s: float) -> tuple[Share, ...]:
        """Start a waiting job on free nodes."""
        slot, _ = self._running[run] = self.waiting.leave(job)
        self.queue.start_on(slot, NodeSet.of(start.nodes), run, now_s, start.completion_s)
        return ()

    def set_available(self, node: int, is_available: bool) -> None:
        """Mark a node as up or down. A run that holds it keeps it."""
        self.queue.set_available(node, is_available)
