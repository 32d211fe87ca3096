"""What `transitions` do on identical nodes, each for one job."""

from __future__ import annotations

import numpy as np

from scheduler.compiled import implements
from scheduler.free_nodes.kernels import transitions
from scheduler.free_nodes.kernels.backfilling import NODES, PLACE, TAKES_S, one_pass
from scheduler.free_nodes.kernels.free_set import AT, FIRST, LAST, NODE, lowest, take_before, toggle
from scheduler.free_nodes.kernels.queue_tree import ESTIMATE_S, JOB, N_JOBS, SIZE, close_ranks, set_leaf
from scheduler.free_nodes.kernels.queues import (
    ASKS_AGAIN_S,
    BACKFILLING,
    CONSERVATIVE,
    ENOUGH,
    MORE_INTERVALS,
    MORE_PLACES,
    N_BOUNDS,
    N_FREE,
    N_INTERVALS,
    N_PLACES,
    N_RELEASES,
    N_WAITING,
    ORDERING,
    RigidQueue,
)
from scheduler.free_nodes.kernels.reservations import first_reserved_s, reserve
from scheduler.free_nodes.kernels.transitions import STARTED, begin


@implements(transitions.most_starts)
def most_starts(q: RigidQueue) -> int:
    return int(min(q.counts[N_WAITING], q.counts[N_FREE]))


@implements(transitions.lack_of_nodes)
def lack_of_nodes(q: RigidQueue) -> int:
    counts, capacity = q.counts, len(q.tree) // 2
    if counts[N_PLACES] == capacity and 2 * counts[N_WAITING] > capacity:
        return MORE_PLACES
    if counts[N_INTERVALS] + counts[N_BOUNDS] // 2 + most_starts(q) > len(q.intervals):
        return MORE_INTERVALS
    return ENOUGH


@implements(transitions.nothing_fits)
def nothing_fits(q: RigidQueue) -> bool:
    return bool(q.tree[1, SIZE] > q.counts[N_FREE])


@implements(transitions.wait)
def wait(q: RigidQueue, slot: int, size: int, kind: int, estimate_s: float) -> None:
    counts, capacity = q.counts, len(q.tree) // 2
    q.size[slot] = size
    if counts[N_PLACES] == capacity:
        counts[N_PLACES] = close_ranks(q.tree, q.place)
    place = counts[N_PLACES]
    counts[N_PLACES] += 1
    q.place[slot] = place
    q.tree[capacity + place, JOB] = slot
    set_leaf(q.tree, place, 1.0, float(size), estimate_s)


@implements(transitions.give_nodes_back)
def give_nodes_back(q: RigidQueue, slot: int) -> None:
    n = q.counts[N_BOUNDS]
    for x in range(q.first_interval[slot], q.first_interval[slot] + q.n_intervals[slot]):
        n = toggle(q.bounds, n, q.intervals[x, FIRST], q.intervals[x, LAST])
    q.counts[N_BOUNDS] = n
    q.counts[N_FREE] += q.size[slot]


@implements(transitions.decide)
def decide(q: RigidQueue, now_s: float) -> int:
    counts, policy = q.counts, q.policy
    n_releases, n_free = counts[N_RELEASES], counts[N_FREE]
    if policy[BACKFILLING] != CONSERVATIVE:
        return one_pass(
            q.tree, q.releases, n_releases, n_free, now_s, policy[ORDERING], policy[BACKFILLING], q.started
        )
    r = q.reservations
    n = reserve(r, q.tree, counts[N_PLACES], q.releases, n_releases, n_free, now_s)
    for x in range(n):
        row = r.started[x]
        q.started[x, PLACE], q.started[x, NODES] = r.waiting[row, N_JOBS], r.waiting[row, SIZE]
        q.started[x, TAKES_S] = r.waiting[row, ESTIMATE_S]
    q.times_s[ASKS_AGAIN_S] = first_reserved_s(r)
    return n


@implements(transitions.start)
def start(q: RigidQueue, n_started: int, now_s: float) -> None:
    """They get the free nodes with the lowest numbers."""
    counts, capacity = q.counts, len(q.tree) // 2
    q.cursor[AT], q.cursor[NODE] = 0, q.bounds[0]
    for x in range(n_started):
        place, size, takes_s = int(q.started[x, PLACE]), int(q.started[x, NODES]), q.started[x, TAKES_S]
        slot = int(q.tree[capacity + place, JOB])
        set_leaf(q.tree, place, 0.0, np.inf, np.inf)
        before = counts[N_INTERVALS]
        counts[N_INTERVALS] = lowest(q.bounds, q.cursor, size, q.intervals, before)
        q.first_interval[slot], q.n_intervals[slot] = before, counts[N_INTERVALS] - before
        begin(q, slot, size, now_s, now_s + takes_s)
        counts[N_FREE] -= size
        q.started[x, STARTED] = slot
    counts[N_WAITING] -= n_started
    counts[N_BOUNDS] = take_before(q.bounds, counts[N_BOUNDS], q.cursor)
