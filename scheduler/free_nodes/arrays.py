"""The arrays of compiled queues and of their reservations: new ones, and larger ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.compiled import allocate, handle
from scheduler.free_nodes.kernels.backfilling import FCFS, NO_BACKFILLING
from scheduler.free_nodes.kernels.free_over_time import N_COLUMNS
from scheduler.free_nodes.kernels.free_set import END
from scheduler.free_nodes.kernels.queue_tree import JOB, N_JOBS, SIZE, Tree, empty_tree
from scheduler.free_nodes.kernels.queues import (
    CONSERVATIVE,
    MORE_INTERVALS,
    MORE_PLACES,
    MORE_SLOTS,
    N_BOUNDS,
    N_DOWN,
    N_FREE,
    N_FREE_SLOTS,
    N_INTERVALS,
    N_PLACES,
    N_WAITING,
    Queue,
    RigidQueue,
)
from scheduler.free_nodes.kernels.reservations import N_RESERVED, Reservations

FEWEST = 256


class QueuePolicy(NamedTuple):
    """Codes of an ordering and a backfilling, and whether to decide though no job fits."""

    ordering: int
    backfilling: int
    always_called: bool


def columns_of_all(policy: QueuePolicy) -> dict[str, Any]:
    """Of an empty queue."""
    n = FEWEST
    counts = np.zeros(16, dtype=np.int64)
    counts[N_FREE_SLOTS] = n
    return {
        "policy": np.array(policy, dtype=np.int64),
        "counts": counts,
        "times_s": np.full(1, np.inf),
        "releases": np.zeros((n, N_COLUMNS)),
        "started": np.zeros((n, 5)),
        "job": np.zeros(n, dtype=np.int64),
        "run": np.zeros(n, dtype=np.int64),
        "began_s": np.zeros(n),
        "end_s": np.zeros(n),
        "holds": np.zeros(n, dtype=np.bool_),
        "free_slots": np.arange(n)[::-1].copy(),
    }


def doubled(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([array, np.zeros_like(array)])


def all_doubled(record: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: doubled(getattr(record, name)) for name in names}


def more_slots(q: Queue, own: Iterable[str]) -> dict[str, Any]:
    """The columns by slot with twice as many, of which the first half is in use; `own` names those that other
    queues do not have."""
    n = len(q.run)
    free_slots = np.zeros(2 * n, dtype=np.int64)
    free_slots[:n] = np.arange(2 * n - 1, n - 1, -1)
    q.counts[N_FREE_SLOTS] = n
    return {
        "free_slots": free_slots,
        **all_doubled(q, ("releases", "started", "job", "run", "began_s", "end_s", "holds", *own)),
    }


ROWS_OF_A_JOB = 4
"""In a profile: where its reservation begins and ends, before a pass and thereafter."""


def new_reservations(jobs: int, releases: int) -> Reservations:
    """Room for so many waiting jobs, and releases; for no jobs, there is none."""
    rows = ROWS_OF_A_JOB * jobs + releases + 3 if jobs else 0
    of_each = (jobs, jobs, (jobs, 4), jobs, jobs, jobs, jobs, jobs, jobs)
    return allocate(Reservations, 4, *of_each, *[(rows, 2)] * 5)


def with_room(r: Reservations, jobs: int, releases: int) -> Reservations:
    """The same reservations with room for as many jobs and releases, if there is any."""
    if not len(r.jobs):
        return r
    new, n = new_reservations(jobs, releases), int(r.n[N_RESERVED])
    new.n[N_RESERVED], new.jobs[:n], new.start_s[:n] = n, r.jobs[:n], r.start_s[:n]
    return new


MANY = 32_768
"""Intervals, which are collected as garbage, and rarely so."""

FEW = 8
"""Nodes that are down."""


def new_rigid_queue(n_nodes: int, policy: QueuePolicy) -> RigidQueue:
    """An empty queue of idle nodes."""
    n = FEWEST
    slots = n if policy.backfilling == CONSERVATIVE else 0
    queue = RigidQueue(
        **columns_of_all(policy),
        tree=empty_tree(n),
        slot=np.zeros(n, dtype=np.int64),
        bounds=np.full(4 * n + 4, END),
        cursor=np.zeros(2, dtype=np.int64),
        down=np.zeros((FEW, 2), dtype=np.int64),
        reservations=new_reservations(slots, n),
        size=np.zeros(n, dtype=np.int64),
        place=np.zeros(n, dtype=np.int64),
        first_interval=np.zeros(n, dtype=np.int64),
        n_intervals=np.zeros(n, dtype=np.int64),
        intervals=np.zeros((2 * n, 2), dtype=np.int64),
    )
    queue.bounds[:2] = 0, n_nodes
    queue.counts[[N_FREE, N_BOUNDS]] = n_nodes, 3
    return queue


def larger_rigid_queue(q: RigidQueue, lack: int) -> RigidQueue:
    """The queue with more of what it lacks (`kernels.transitions.lack`)."""
    return _LARGER[lack](q)


def _with_places(q: RigidQueue) -> RigidQueue:
    return q._replace(tree=_larger_tree(q.tree), slot=doubled(q.slot))


def _larger_tree(tree: Tree) -> Tree:
    """With twice as many leaves, behind those that are there."""
    capacity = len(tree) // 2
    new = empty_tree(2 * capacity)
    new[2 * capacity : 3 * capacity] = tree[capacity:]
    _summarise(new)
    return new


def _summarise(tree: Tree) -> None:
    """Set all inner nodes from the leaves."""
    level = len(tree) // 4
    while level:  # the rows of one level of the tree, from the bottom up
        children = tree[2 * level : 4 * level].reshape(level, 2, 4)
        tree[level : 2 * level, N_JOBS] = children[:, :, N_JOBS].sum(axis=1)
        tree[level : 2 * level, SIZE:JOB] = children[:, :, SIZE:JOB].min(axis=1)
        level //= 2


def sort_waiting(q: RigidQueue, slots: Sequence[int]) -> None:
    """The waiting jobs are those in these slots, in this order."""
    n, capacity = len(slots), len(q.tree) // 2
    leaves = q.tree[capacity + q.place[slots]]
    q.tree[:] = empty_tree(capacity)
    q.tree[capacity : capacity + n] = leaves
    _summarise(q.tree)
    q.slot[:n], q.place[slots] = slots, np.arange(n)
    q.counts[N_PLACES] = n


def _with_slots(q: RigidQueue) -> RigidQueue:
    q = q._replace(**more_slots(q, ("size", "place", "first_interval", "n_intervals")))
    return q._replace(reservations=with_room(q.reservations, len(q.size), len(q.releases)))


def _with_intervals_to_start(q: RigidQueue) -> RigidQueue:
    starting = min(int(q.counts[N_WAITING]), int(q.counts[N_FREE]))
    return with_intervals(q, int(q.counts[N_BOUNDS]) + starting)


def with_intervals(q: RigidQueue, more: int) -> RigidQueue:
    """Only those of runs that hold nodes, room for so many more, and as much room again."""
    holding = np.flatnonzero(q.holds)
    sizes = q.n_intervals[holding]
    ends = sizes.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    rows = np.repeat(q.first_interval[holding] - ends + sizes, sizes) + np.arange(total)
    room = max(MANY, 2 * (total + int(q.counts[N_DOWN]) + more))
    intervals, bounds = np.zeros((room, 2), dtype=np.int64), np.full(2 * room + 4, END)
    intervals[:total] = q.intervals[rows]
    q.first_interval[holding] = ends - sizes
    q.counts[N_INTERVALS] = total
    n_bounds = int(q.counts[N_BOUNDS])
    bounds[:n_bounds] = q.bounds[:n_bounds]
    return q._replace(intervals=intervals, bounds=bounds)


def with_more_nodes_down(q: RigidQueue) -> RigidQueue:
    return q._replace(down=doubled(q.down))


_LARGER: Mapping[int, Callable[[RigidQueue], RigidQueue]] = {
    MORE_PLACES: _with_places,
    MORE_INTERVALS: _with_intervals_to_start,
    MORE_SLOTS: _with_slots,
}


UNUSED = QueuePolicy(FCFS, NO_BACKFILLING, always_called=False)
"""The scheduler has the policy."""


class GrowingQueue:
    """The arrays of a queue, which are replaced by larger ones as needed, and their handle.

    `counts` are those of the arrays, and never replaced.
    """

    __slots__ = ("arrays", "counts", "handle")

    def __init__(self, n_nodes: int) -> None:
        self.replace(new_rigid_queue(n_nodes, UNUSED))
        self.counts = memoryview(self.arrays.counts.data)  # read faster than the array

    def replace(self, arrays: RigidQueue) -> None:
        self.arrays, self.handle = arrays, handle(arrays)

    def make_room(self, n: int) -> None:
        """For n more intervals of nodes."""
        counts = self.counts
        if counts[N_INTERVALS] + counts[N_DOWN] + n > len(self.arrays.intervals):
            self.replace(with_intervals(self.arrays, n))
