"""The arrays of a queue of identical nodes: new ones, and larger ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.compiled import grown, made
from scheduler.free_nodes.kernels.free_set import END
from scheduler.free_nodes.kernels.identical import RigidQueue
from scheduler.free_nodes.kernels.ledger import (
    CONSERVATIVE,
    MORE_INTERVALS,
    MORE_PLACES,
    MORE_SLOTS,
    QueuePolicy,
)
from scheduler.free_nodes.kernels.queue_tree import JOB, N_JOBS, SIZE, Tree, empty_tree
from scheduler.free_nodes.kernels.reservations import Reservations

FEWEST = 256

MANY = 32_768
"""Intervals, which are collected as garbage, and rarely so."""

FEW = 8
"""Nodes that are down."""


def new_reservations(n_slots: int) -> Reservations:
    return made(Reservations, **_room(n_slots))


def with_slots(r: Reservations, n_slots: int) -> Reservations:
    """The same reservations for more jobs that wait or run."""
    return grown(r, **_room(n_slots)) if len(r.jobs) < n_slots else r


def _room(n_slots: int) -> dict[str, int]:
    # In a profile, a job has rows where its reservation begins and ends, before a pass and thereafter.
    return {"waiting": n_slots, "rows": 5 * n_slots + 3}


def new_rigid_queue(n_nodes: int, policy: QueuePolicy = QueuePolicy()) -> RigidQueue:  # noqa: B008 (immutable)
    """An empty queue of idle nodes."""
    n = FEWEST
    room = _room(n if policy.backfilling == CONSERVATIVE else 0)
    q = made(RigidQueue, slots=n, places=n, intervals=2 * n, bounds=4 * n + 4, down=FEW, leaves=0, **room)
    policy.write(q.ledger)
    q.free.bounds[:2], q.free.n[0], q.n_free[0] = (0, n_nodes), 3, n_nodes
    return q._replace(tree=empty_tree(n))


def larger_rigid_queue(q: RigidQueue, lack: int) -> RigidQueue:
    """The queue with more of what it lacks (`ledger.lack`)."""
    if lack == MORE_PLACES:
        return grown(q._replace(tree=_larger_tree(q.tree)), places=2 * len(q.slot))
    if lack == MORE_INTERVALS:
        return with_intervals(q, int(q.free.n[0] + min(q.ledger.n_waiting[0], q.n_free[0])))
    assert lack == MORE_SLOTS
    n = 2 * len(q.size)
    return grown(q, slots=n, **_room(n if len(q.reservations.jobs) else 0))


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
    q.slot[:n], q.place[slots], q.n_places[0] = slots, np.arange(n), n


def with_intervals(q: RigidQueue, more: int) -> RigidQueue:
    """Only those of runs that hold nodes, room for `more`, and as much room again."""
    holding = np.flatnonzero(q.ledger.holds)
    sizes = q.n_intervals[holding]
    ends = sizes.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    rows = np.repeat(q.first_interval[holding] - ends + sizes, sizes) + np.arange(total)
    room = max(MANY, 2 * (total + int(q.n_down[0]) + more))
    intervals, bounds, n = np.zeros((room, 2), dtype=np.int64), np.full(2 * room + 4, END), int(q.free.n[0])
    intervals[:total], bounds[:n] = q.intervals[rows], q.free.bounds[:n]
    q.first_interval[holding], q.n_held[0] = ends - sizes, total
    return q._replace(intervals=intervals, free=q.free._replace(bounds=bounds))
