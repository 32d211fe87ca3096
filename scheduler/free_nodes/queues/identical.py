"""The arrays of a compiled queue for identical nodes: new ones, and larger ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

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
    N_INTERVALS,
    N_PLACES,
    N_WAITING,
    RigidQueue,
)
from scheduler.free_nodes.queues.arrays import FEWEST, QueuePolicy, columns_of_all, doubled, more_slots
from scheduler.free_nodes.queues.reservations import new_reservations, with_room

MANY = 32_768
"""Intervals, which are collected as garbage, and rarely so."""

FEW = 8
"""Nodes that are down."""


def new_rigid_queue(n_nodes: int, policy: QueuePolicy, n_users: int) -> RigidQueue:
    """An empty queue of idle nodes; users are known by number, below `n_users`."""
    n = FEWEST
    slots = n if policy.backfilling == CONSERVATIVE else 0
    queue = RigidQueue(
        **columns_of_all(policy, n_users),
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
