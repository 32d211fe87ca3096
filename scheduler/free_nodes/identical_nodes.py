"""The state of identical nodes: what is free, which jobs wait, what runs hold until when."""

from __future__ import annotations

from math import inf

import numpy as np

from scheduler.compiled import Floats, Floats2, Ints, Ints2, grown
from scheduler.free_nodes.arrays import (
    larger_rigid_queue,
    new_rigid_queue,
    sort_waiting,
    with_intervals,
)
from scheduler.free_nodes.in_use import GrowingQueue, NodesInUse, Transitions, Waiting
from scheduler.free_nodes.kernels import free_set
from scheduler.free_nodes.kernels import python_entry_points as kernels
from scheduler.free_nodes.kernels.free_set import FIRST, LAST
from scheduler.free_nodes.kernels.identical import RigidQueue
from scheduler.free_nodes.kernels.queue_tree import ESTIMATE_S, JOB, N_JOBS, SIZE
from scheduler.free_nodes.kernels.reservations import Reservations
from scheduler.model import Job, JobId, RunId, Share, Start
from scheduler.node_request import Request
from scheduler.node_set import Interval, NodeSet

Queue = GrowingQueue[RigidQueue]
TRANSITIONS = Transitions(kernels.arrived, kernels.released, kernels.ended, kernels.extend_estimate)


class FreeSet:
    """The free nodes, `n` of them."""

    __slots__ = ("_handed_out", "_n", "_n_nodes", "_queue")

    def __init__(self, queue: Queue, n_nodes: int) -> None:
        self._queue = queue
        self._n = memoryview(queue.arrays.n_free.data)
        self._n_nodes = n_nodes
        self._handed_out: Ints2 = np.empty((0, 2), dtype=np.int64)

    @property
    def n(self) -> int:
        return self._n[0]

    @property
    def intervals(self) -> list[Interval]:
        free = self._queue.arrays.free
        bounds = free.bounds[: free.n[0] - 1].tolist()
        return [(first, end - 1) for first, end in zip(bounds[::2], bounds[1::2], strict=True)]

    def has(self, nodes: NodeSet) -> bool:
        """Whether all of them are free."""
        if not nodes.within(self._n_nodes):
            return False
        free = self._queue.arrays.free
        return all(kernels.are_free(free, first, last) for first, last in nodes.intervals)

    def lowest(self, n: int) -> NodeSet:
        """The n free nodes with the lowest numbers. Raises IndexError if fewer are free."""
        return self.in_order().next(n)

    def in_order(self) -> InOrder:
        free = self._queue.arrays.free
        if 2 * len(self._handed_out) < len(free.bounds):
            self._handed_out = np.empty((len(free.bounds) // 2, 2), dtype=np.int64)
        return InOrder(free, self._handed_out, self.n)


class InOrder:
    """Hands out free nodes, lowest first, while the free set does not change.

    All calls together cost one walk over the set.
    """

    __slots__ = ("_free", "_intervals", "_left")

    def __init__(self, free: free_set.FreeSet, intervals: Ints2, n_free: int) -> None:
        """`intervals` has room for those between the bounds."""
        self._free = free._replace(at=np.zeros(1, dtype=np.int64), node=free.bounds[:1].copy())
        self._left = n_free
        self._intervals = intervals

    def next(self, n: int) -> NodeSet:
        """The next n free nodes. Raises IndexError if fewer are left."""
        if not 0 <= n <= self._left:
            raise IndexError(f"{n} free nodes are asked for, and {self._left} are left")
        self._left -= n
        found = kernels.lowest(self._free, n, self._intervals, 0)
        return NodeSet(tuple([(first, last) for first, last in self._intervals[:found].tolist()]), n)


class WaitingJobs(Waiting[RigidQueue]):
    """Waiting jobs in order of arrival, then id.

    Adding or starting one costs O(log n), except for adding one before others.
    """

    _last_key = -inf, -1
    """(arrival, id) of the last job."""

    def slot_at(self, i: int) -> int:
        arrays = self._queue.arrays
        return arrays.slot.item(kernels.place_of(arrays.tree, i))

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

    @property
    def shortest_first(self) -> Ints:
        """(n,) the jobs by estimated run time; ties go to the earlier arrival, then the lower id."""
        return self.estimates_s.argsort(kind="stable")

    def estimate_s(self, job: JobId) -> float:
        """Estimated run time of a waiting job."""
        arrays = self._queue.arrays
        return float(arrays.tree[len(arrays.tree) // 2 + arrays.place[self._slot_of[job]], ESTIMATE_S])

    def add(self, job: Job, estimate_s: float) -> None:
        """Add a job that requests `job.n_tasks` nodes."""
        self.join(job, job.n_tasks, estimate_s)
        key = _key(job)
        if key < self._last_key:  # it waits again, before jobs that arrived later
            in_order = sorted(self._job_in, key=lambda slot: _key(self._job_in[slot]))
            sort_waiting(self._queue.arrays, in_order)
            key = _key(self._job_in[in_order[-1]])
        self._last_key = key


def _key(job: Job) -> tuple[float, JobId]:
    return job.arrival_s, job.id


class FreeNodes(NodesInUse[RigidQueue]):
    """`n_nodes` identical nodes, each for one job. Read-only for schedulers; it changes over time.

    * `free`: the free nodes, `free.n` of them.
    * `waiting`: the jobs of the problem, with `sizes` and `estimates_s` as arrays in queue order.
    * `releases`: when running jobs are expected to release their nodes.

    These three read the arrays of one `queue`, which compiled transitions change.
    """

    def __init__(self, n_nodes: int) -> None:
        super().__init__(n_nodes, GrowingQueue(new_rigid_queue(n_nodes), larger_rigid_queue), TRANSITIONS)
        self.free = FreeSet(self.queue, n_nodes)
        self.waiting = WaitingJobs(self.queue, kernels.arrived)

    def wait(self, job: Job, request: Request | None, estimate_s: float, rank: int = 0) -> None:
        self.waiting.add(job, estimate_s)

    def nothing_fits(self) -> bool:
        """Whether no waiting job fits now."""
        return self.waiting.least_size > self.free.n

    def decide(
        self, ordering: int, backfilling: int, now_s: float, reservations: Reservations | None = None
    ) -> tuple[Start, ...]:
        """The jobs that start by these policies, in order. CONSERVATIVE needs `reservations`, with room for
        all slots."""
        queue = self.queue
        if reservations is not None and reservations is not queue.arrays.reservations:
            queue.replace(queue.arrays._replace(reservations=reservations))
        while (n := kernels.decide(queue.handle, ordering, backfilling, now_s)) < 0:
            queue.enlarge(-n)
        return self.starts(n, now_s)

    def starts(self, n: int, now_s: float) -> tuple[Start, ...]:
        """The n jobs of a compiled decision, on the nodes that `kernels.identical.choose_nodes` chose."""
        if not n:
            return ()
        q, found = self.queue.arrays, list[Start]()
        intervals, row = q.intervals, q.n_held.item()
        starting = q.starting
        for x in range(n):
            after = row + starting.n_intervals.item(x)
            nodes = NodeSet(tuple(map(tuple, intervals[row:after].tolist())), starting.size.item(x))
            found.append(Start(starting.rank.item(x), nodes, now_s + starting.takes_s.item(x)))
            row = after
        return tuple(found)

    def start(self, run: RunId, job: JobId, start: Start, now_s: float) -> tuple[Share, ...]:
        """A waiting job starts on free nodes."""
        slot, _ = self._running[run] = self.waiting.leave(job)
        nodes = NodeSet.of(start.nodes)
        n, q = len(nodes.intervals), self._with_room(len(nodes.intervals))
        for row, (first, last) in enumerate(nodes.intervals, q.n_held.item()):
            q.intervals[row, FIRST], q.intervals[row, LAST] = first, last
        q.ledger.next_run[0] = run
        kernels.start_on(self.queue.handle, slot, n, now_s, start.completion_s)
        return ()

    def set_available(self, node: int, is_available: bool) -> None:
        """A node is up, or down. A run that holds it keeps it."""
        q = self._with_room(1)
        if q.n_down[0] == len(q.down):
            self.queue.replace(grown(q, down=2 * len(q.down)))
        kernels.set_available(self.queue.handle, node, is_available)

    def _with_room(self, n: int) -> RigidQueue:
        """The arrays, with room for n more intervals of nodes."""
        q = self.queue.arrays
        if q.n_held.item() + q.n_down.item() + n > len(q.intervals):
            self.queue.replace(with_intervals(q, n))
        return self.queue.arrays
