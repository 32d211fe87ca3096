"""The state of identical nodes: what is free, which jobs wait, what runs hold until when."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from scheduler.compiled import Floats, Floats2, Ints, Ints2
from scheduler.free_nodes.arrays import GrowingQueue, larger_rigid_queue, sort_waiting, with_more_nodes_down
from scheduler.free_nodes.kernels import python_entry_points
from scheduler.free_nodes.kernels.free_over_time import END_S, RELEASED, RUN
from scheduler.free_nodes.kernels.free_set import FIRST, LAST
from scheduler.free_nodes.kernels.python_entry_points import are_free, arrived, lowest, place_of
from scheduler.free_nodes.kernels.queue_tree import ESTIMATE_S, JOB, N_JOBS, SIZE
from scheduler.free_nodes.kernels.queues import (
    N_BOUNDS,
    N_DOWN,
    N_FREE,
    N_INTERVALS,
    N_RELEASES,
    N_RUNS,
    N_WAITING,
)
from scheduler.free_nodes.kernels.reservations import Reservations
from scheduler.model import Job, JobId, RunId, Start
from scheduler.node_set import Interval, NodeSet
from scheduler.problem import LazyJobs


class FreeSet:
    """The free nodes, `n` of them."""

    __slots__ = ("_handed_out", "_n_nodes", "_queue")

    def __init__(self, queue: GrowingQueue, n_nodes: int) -> None:
        self._queue = queue
        self._n_nodes = n_nodes
        self._handed_out: Ints2 = np.empty((0, 2), dtype=np.int64)

    @property
    def n(self) -> int:
        return self._queue.counts[N_FREE]

    @property
    def intervals(self) -> list[Interval]:
        bounds = self._queue.arrays.bounds[: self._queue.counts[N_BOUNDS] - 1].tolist()
        return [(first, end - 1) for first, end in zip(bounds[::2], bounds[1::2], strict=True)]

    def has(self, nodes: NodeSet) -> bool:
        """Whether all of them are free."""
        if not nodes.within(self._n_nodes):
            return False
        bounds, n = self._queue.arrays.bounds, self._queue.counts[N_BOUNDS]
        return all(are_free(bounds, n, first, last) for first, last in nodes.intervals)

    def lowest(self, n: int) -> NodeSet:
        """The n free nodes with the lowest numbers. Raises IndexError if fewer are free."""
        return self.in_order().next(n)

    def in_order(self) -> InOrder:
        bounds = self._queue.arrays.bounds
        if 2 * len(self._handed_out) < len(bounds):
            self._handed_out = np.empty((len(bounds) // 2, 2), dtype=np.int64)
        return InOrder(bounds, self._handed_out, self.n)


class InOrder:
    """Hands out free nodes, lowest first, while the free set does not change.

    All calls together cost one walk over the set.
    """

    __slots__ = ("_bounds", "_cursor", "_intervals", "_left")

    def __init__(self, bounds: Ints, intervals: Ints2, n_free: int) -> None:
        """`intervals` has room for those between the bounds."""
        self._bounds = bounds
        self._left = n_free
        self._intervals = intervals
        self._cursor: Ints = np.array([0, bounds[0]])

    def next(self, n: int) -> NodeSet:
        """The next n free nodes. Raises IndexError if fewer are left."""
        if not 0 <= n <= self._left:
            raise IndexError(f"{n} free nodes are asked for, and {self._left} are left")
        self._left -= n
        found = lowest(self._bounds, self._cursor, n, self._intervals, 0)
        return NodeSet(tuple([(first, last) for first, last in self._intervals[:found].tolist()]), n)


class Releases:
    """When running jobs are expected to release their nodes: in order of time, then run id."""

    __slots__ = ("_queue",)

    def __init__(self, queue: GrowingQueue) -> None:
        self._queue = queue

    @property
    def ends_s(self) -> Floats:
        """(n,) in ascending order."""
        return self._column(END_S)

    @property
    def sizes(self) -> Floats:
        """(n,) number of nodes released at each of these times."""
        return self._column(RELEASED)

    def _column(self, column: int) -> Floats:
        return self._queue.arrays.releases[: self._queue.counts[N_RELEASES], column].copy()


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


class FreeNodes:
    """`n_nodes` identical nodes, each for one job. Read-only for schedulers; it changes over time.

    * `free`: the free nodes, `free.n` of them.
    * `waiting`: the jobs of the problem, with `sizes` and `estimates_s` as arrays in queue order.
    * `releases`: when running jobs are expected to release their nodes.

    These three read the arrays of one `queue`, which compiled transitions change.
    """

    __slots__ = ("_running", "free", "n_nodes", "queue", "releases", "waiting")

    def __init__(self, n_nodes: int) -> None:
        self.n_nodes = n_nodes
        self.queue = GrowingQueue(n_nodes)
        self.free = FreeSet(self.queue, n_nodes)
        self.waiting = WaitingJobs(self.queue)
        self.releases = Releases(self.queue)
        self._running: dict[RunId, tuple[int, Job]] = {}
        """The slot and the job of each run."""

    def nothing_fits(self) -> bool:
        """Whether no waiting job fits now."""
        return self.queue.arrays.tree.item(1, SIZE) > self.queue.counts[N_FREE]

    def decide(
        self, ordering: int, backfilling: int, now_s: float, reservations: Reservations | None = None
    ) -> tuple[Start, ...]:
        """The jobs that start by these policies, in order. CONSERVATIVE needs `reservations`, with room for
        `most_jobs`."""
        queue = self.queue
        if reservations is not None and reservations is not queue.arrays.reservations:
            queue.replace(queue.arrays._replace(reservations=reservations))
        while (n := python_entry_points.decide(queue.handle, ordering, backfilling, now_s)) < 0:
            self.enlarge(-n)
        return self.starts(n, now_s)

    def enlarge(self, lack: int) -> None:
        """Make room in the arrays of what lacks (`kernels.transitions.lack`)."""
        self.queue.replace(larger_rigid_queue(self.queue.arrays, lack))

    def starts(self, n: int, now_s: float) -> tuple[Start, ...]:
        """The n jobs of a compiled decision, on the nodes that `kernels.rigid_queue.choose_nodes` chose."""
        if not n:
            return ()
        queue = self.queue
        intervals, row, starts = queue.arrays.intervals, queue.counts[N_INTERVALS], list[Start]()
        for _, size, takes_s, rank, n_intervals in queue.arrays.started[:n].tolist():
            after = row + int(n_intervals)
            nodes = tuple([(first, last) for first, last in intervals[row:after].tolist()])
            starts.append(Start(int(rank), NodeSet(nodes, int(size)), now_s + takes_s))
            row = after
        return tuple(starts)

    @property
    def most_jobs(self) -> int:
        """So many can wait or run before arrays become larger."""
        return len(self.queue.arrays.run)

    def start(self, run: RunId, job: JobId, nodes: NodeSet, now_s: float, end_s: float) -> None:
        """A waiting job starts on free nodes, until about `end_s`."""
        slot, _ = self._running[run] = self.waiting.leave(job)
        queue, n = self.queue, len(nodes.intervals)
        queue.make_room(n)
        intervals = queue.arrays.intervals
        for row, (first, last) in enumerate(nodes.intervals, queue.counts[N_INTERVALS]):
            intervals[row, FIRST], intervals[row, LAST] = first, last
        queue.counts[N_RUNS] = run
        python_entry_points.start_on(queue.handle, slot, n, now_s, end_s)

    def release(self, run: RunId, now_s: float) -> None:
        """A run is about to end; if that was expected, its nodes are free already."""
        python_entry_points.released(self.queue.handle, self._running[run][0], now_s)

    def end(self, run: RunId) -> tuple[Job, float]:
        """A run is over: its job, and when it began."""
        slot, job = self._running.pop(run)
        began_s = self.queue.arrays.began_s.item(slot)
        python_entry_points.ended(self.queue.handle, slot)
        return job, began_s

    def first_end_s(self) -> float | None:
        """When the next run is expected to end."""
        return self.queue.arrays.releases.item(END_S) if self.queue.counts[N_RELEASES] else None

    def overdue(self, now_s: float) -> tuple[RunId, Job, float] | None:
        """The first run that should have ended by now, its job, and for how long it has run; None if there is
        none."""
        first_s = self.first_end_s()
        if first_s is None or first_s > now_s:
            return None
        run = RunId(int(self.queue.arrays.releases[0, RUN]))
        slot, job = self._running[run]
        return run, job, now_s - self.queue.arrays.began_s.item(slot)

    def takes_longer(self, run: RunId, takes_s: float, now_s: float) -> None:
        """The run that is `overdue` is now expected to take so long."""
        python_entry_points.takes_longer(self.queue.handle, self._running[run][0], takes_s, now_s)

    def set_available(self, node: int, is_available: bool) -> None:
        """A node is up, or down. A run that holds it keeps it."""
        self.queue.make_room(1)
        if self.queue.counts[N_DOWN] == len(self.queue.arrays.down):
            self.queue.replace(with_more_nodes_down(self.queue.arrays))
        python_entry_points.set_available(self.queue.handle, node, is_available)
