"""The arrays of a compiled queue: new ones, and larger ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.compiled import allocate
from scheduler.free_nodes.kernels.estimates import EstimateTable
from scheduler.free_nodes.kernels.free_set import END
from scheduler.free_nodes.kernels.queue_tree import SIZE, Tree, empty_tree
from scheduler.free_nodes.kernels.releases import N_COLUMNS
from scheduler.free_nodes.kernels.reservations import Reservations
from scheduler.free_nodes.kernels.rigid_queue import (
    CONSERVATIVE,
    MORE_INTERVALS,
    MORE_PLACES,
    MORE_RELEASES,
    MORE_SLOTS,
    N_BOUNDS,
    N_FREE,
    N_FREE_SLOTS,
    N_INTERVALS,
    N_WAITING,
    RigidQueue,
)

FEWEST = 256
MANY = 32_768
"""Intervals, which are collected as garbage, and rarely so."""


class QueuePolicy(NamedTuple):
    """Codes of an ordering, a backfilling and the estimates, and whether to decide though no job fits."""

    ordering: int
    backfilling: int
    estimates_by: int
    always_called: bool


def new_queue(n_nodes: int, policy: QueuePolicy, n_users: int) -> RigidQueue:
    """An empty queue of idle nodes; users are known by number, below `n_users`."""
    n = FEWEST
    slots = n if policy.backfilling == CONSERVATIVE else 0
    queue = RigidQueue(
        policy=np.array(policy, dtype=np.int64),
        counts=np.zeros(16, dtype=np.int64),
        times_s=np.full(2, np.inf),
        tree=empty_tree(n),
        releases=np.zeros((n, N_COLUMNS)),
        bounds=np.full(4 * n + 4, END),
        cursor=np.zeros(2, dtype=np.int64),
        started=np.empty((n, 4)),
        reservations=_reservations(slots, n),
        estimates=allocate(EstimateTable, n, n, n, n, (n_users, 2), n_users),
        size=np.zeros(n, dtype=np.int64),
        place=np.zeros(n, dtype=np.int64),
        run=np.zeros(n, dtype=np.int64),
        began_s=np.zeros(n),
        end_s=np.zeros(n),
        holds=np.zeros(n, dtype=np.bool_),
        first_interval=np.zeros(n, dtype=np.int64),
        n_intervals=np.zeros(n, dtype=np.int64),
        free_slots=np.arange(n)[::-1].copy(),
        intervals=np.zeros((2 * n, 2), dtype=np.int64),
    )
    queue.bounds[:2] = 0, n_nodes
    queue.counts[[N_FREE, N_BOUNDS, N_FREE_SLOTS]] = n_nodes, 3, n
    return queue


def larger(q: RigidQueue, lack: int) -> RigidQueue:
    """The queue with more of what it lacks (`kernels.rigid_queue.lack`)."""
    return _LARGER[lack](q)


def _with_places(q: RigidQueue) -> RigidQueue:
    return q._replace(tree=_larger_tree(q.tree))


def _with_releases(q: RigidQueue) -> RigidQueue:
    q = q._replace(releases=_doubled(q.releases), started=_doubled(q.started))
    return q._replace(reservations=_with_room(q.reservations, len(q.size), len(q.releases)))


def _doubled(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([array, np.zeros_like(array)])


def _larger_tree(tree: Tree) -> Tree:
    """With twice as many leaves, behind those that are there."""
    capacity = len(tree) // 2
    new = empty_tree(2 * capacity)
    new[2 * capacity : 3 * capacity] = tree[capacity:]
    level = capacity
    while level:  # the rows of one level of the tree, from the bottom up
        children = new[2 * level : 4 * level].reshape(level, 2, 4)
        new[level : 2 * level, 0] = children[:, :, 0].sum(axis=1)
        new[level : 2 * level, SIZE:3] = children[:, :, SIZE:3].min(axis=1)
        level //= 2
    return new


def _with_slots(q: RigidQueue) -> RigidQueue:
    """Twice as many slots; of these, the first half is in use."""
    n = len(q.size)
    by_slot = ("size", "place", "run", "began_s", "end_s", "holds", "first_interval", "n_intervals")
    of_estimates = ("limit_s", "known_s", "user", "n_corrections")
    free_slots = np.zeros(2 * n, dtype=np.int64)
    free_slots[:n] = np.arange(2 * n - 1, n - 1, -1)
    q.counts[N_FREE_SLOTS] = n
    e = q.estimates
    return q._replace(
        free_slots=free_slots,
        estimates=e._replace(**{name: _doubled(getattr(e, name)) for name in of_estimates}),
        reservations=_with_room(q.reservations, 2 * n, len(q.releases)),
        **{name: _doubled(getattr(q, name)) for name in by_slot},
    )


def _with_intervals(q: RigidQueue) -> RigidQueue:
    """Only those of runs that hold nodes, and as much room again."""
    holding = np.flatnonzero(q.holds)
    sizes = q.n_intervals[holding]
    ends = sizes.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    rows = np.repeat(q.first_interval[holding] - ends + sizes, sizes) + np.arange(total)
    starting = min(int(q.counts[N_WAITING]), int(q.counts[N_FREE]))
    room = max(MANY, 2 * (total + int(q.counts[N_BOUNDS]) + starting))
    intervals, bounds = np.zeros((room, 2), dtype=np.int64), np.full(2 * room + 4, END)
    intervals[:total] = q.intervals[rows]
    q.first_interval[holding] = ends - sizes
    q.counts[N_INTERVALS] = total
    n_bounds = int(q.counts[N_BOUNDS])
    bounds[:n_bounds] = q.bounds[:n_bounds]
    return q._replace(intervals=intervals, bounds=bounds)


def _reservations(slots: int, releases: int) -> Reservations:
    """Room for a reservation in each slot; for none, there are no reservations."""
    rows = 4 * slots + releases + 3 if slots else 0
    of_each = (slots, slots, (slots, 4), slots, slots, slots, slots)
    return allocate(Reservations, 1, *of_each, (rows, 2))


def _with_room(r: Reservations, slots: int, releases: int) -> Reservations:
    if not len(r.jobs):
        return r
    new, n = _reservations(slots, releases), int(r.n[0])
    new.n[0], new.jobs[:n], new.start_s[:n] = n, r.jobs[:n], r.start_s[:n]
    return new


_LARGER: Mapping[int, Callable[[RigidQueue], RigidQueue]] = {
    MORE_PLACES: _with_places,
    MORE_RELEASES: _with_releases,
    MORE_INTERVALS: _with_intervals,
    MORE_SLOTS: _with_slots,
}
