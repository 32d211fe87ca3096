"""What all nodes for rigid jobs have: the jobs that wait for them, and the runs that hold them until when.

The arrays are those of the compiled queues, which `kernels.ledger` changes; here they are kept large enough,
and jobs and runs have their names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, NamedTuple

import numpy as np

from scheduler.compiled import Floats, Ints, handle
from scheduler.free_nodes.kernels.ledger import Q
from scheduler.model import Job, JobId, RunId
from scheduler.node_request import Request
from scheduler.problem import LazyJobs


class Transitions(NamedTuple):
    """Those of `kernels.ledger`, compiled for one kind of queue."""

    arrived: Callable[..., int]
    """If an array is too small, nothing is done: returns -1 times what lacks."""
    released: Callable[..., None]
    ended: Callable[..., None]
    extend_estimate: Callable[..., None]


class GrowingQueue(Generic[Q]):
    """The arrays of a queue, which are replaced by larger ones as needed, and their handle."""

    __slots__ = ("_larger", "arrays", "handle", "n_waiting")

    def __init__(self, arrays: Q, larger: Callable[[Q, int], Q]) -> None:
        self.replace(arrays)
        self._larger = larger
        self.n_waiting = memoryview(arrays.ledger.n_waiting.data)  # read faster than the array

    def replace(self, arrays: Q) -> None:
        self.arrays, self.handle = arrays, handle(arrays)  # type: ignore[type-var]

    def enlarge(self, lack: int) -> None:
        """Make room in the arrays of what lacks (`ledger.lack`)."""
        self.replace(self._larger(self.arrays, lack))


class Releases:
    """When running jobs are expected to release their nodes: in order of time, then run id."""

    __slots__ = ("_queue",)

    def __init__(self, queue: GrowingQueue[Any]) -> None:
        self._queue = queue

    @property
    def ends_s(self) -> Floats:
        """(n,) in ascending order."""
        releases = self._queue.arrays.ledger.releases
        found: Floats = releases.end_s[: releases.n[0]].copy()
        return found

    @property
    def sizes(self) -> Ints:
        """(n,) number of identical nodes released at each of these times."""
        releases = self._queue.arrays.ledger.releases
        found: Ints = releases.released[: releases.n[0]].copy()
        return found

    def first_s(self) -> float | None:
        """When the next run is expected to end."""
        releases = self._queue.arrays.ledger.releases
        return releases.end_s.item(0) if releases.n.item() else None


class Waiting(LazyJobs, Generic[Q]):
    """Waiting jobs in order of service."""

    def __init__(self, queue: GrowingQueue[Q], arrived: Callable[..., int]) -> None:
        self._queue, self._arrived = queue, arrived
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
        return self._queue.n_waiting[0]

    def __getitem__(self, i: Any) -> Any:
        if type(i) is not int or not 0 <= i < self._queue.n_waiting[0]:
            return super().__getitem__(i)
        return self._asked if i == self._asked_i else self.job_at(i)

    def job_at(self, i: int) -> Job:
        job = self._job_in[self.slot_at(i)]
        self._asked_i, self._asked = i, job
        return job

    def join(self, job: Job, *request: float) -> int:
        """A job waits, with what `arrived` gets of its request. Returns its slot."""
        queue = self._queue
        while (slot := self._arrived(queue.handle, job.id, *request, job.arrival_s)) < 0:
            queue.enlarge(-slot)
        self._job_in[slot], self._slot_of[job.id], self._asked_i = job, slot, None
        return slot

    def leave(self, job: JobId) -> tuple[int, Job]:
        """A job starts: its slot, and the job."""
        slot, self._asked_i = self._slot_of.pop(job), None
        return slot, self._job_in.pop(slot)


class NodesInUse(ABC, Generic[Q]):
    """Nodes, the jobs that wait for them, and the runs that hold them."""

    def __init__(self, n_nodes: int, queue: GrowingQueue[Q], transitions: Transitions) -> None:
        self.n_nodes, self.queue, self.releases = n_nodes, queue, Releases(queue)
        self._transitions = transitions
        self._running: dict[RunId, tuple[int, Job]] = {}
        """The slot and the job of each run."""

    @abstractmethod
    def wait(self, job: Job, request: Request | None, estimate_s: float, rank: int = 0) -> None:
        """Queue a job; `rank` is that of its queue, 0 for the one served first. Identical nodes have one
        queue, and look at no request."""

    def release(self, run: RunId, now_s: float) -> None:
        """A run is about to end; if that was expected, its nodes are free already."""
        self._transitions.released(self.queue.handle, self._running[run][0], now_s)

    def is_due(self, run: RunId, now_s: float) -> bool:
        """Whether a run holds nodes and is expected to end now."""
        return self.holds(run) and bool(self.queue.arrays.ledger.end_s[self._running[run][0]] == now_s)

    def holds(self, run: RunId) -> bool:
        """Whether a run holds nodes."""
        return run in self._running and bool(self.queue.arrays.ledger.holds[self._running[run][0]])

    def job_of(self, run: RunId) -> Job:
        return self._running[run][1]

    def end(self, run: RunId) -> tuple[Job, float]:
        """A run is over: its job, and when it began."""
        slot, job = self._running.pop(run)
        began_s = self.queue.arrays.ledger.began_s.item(slot)
        self._transitions.ended(self.queue.handle, slot)
        return job, began_s

    def overdue(self, now_s: float) -> tuple[Job, float] | None:
        """The job of the first run that should have ended by now, and for how long it has run; None if there
        is none."""
        first_s = self.releases.first_s()
        if first_s is None or first_s > now_s:
            return None
        ledger = self.queue.arrays.ledger
        slot = ledger.releases.slot.item(0)
        _, job = self._running[RunId(ledger.run.item(slot))]
        return job, now_s - ledger.began_s.item(slot)

    def extend_estimate(self, takes_s: float, now_s: float) -> None:
        """The run that is `overdue` is now expected to take that long."""
        self._transitions.extend_estimate(self.queue.handle, takes_s, now_s)


def in_places(slots: Ints, n_slots: int) -> Ints:
    """By slot: the position of each of `slots`."""
    places: Ints = np.zeros(n_slots, dtype=np.int64)
    places[slots] = np.arange(len(slots))
    return places
