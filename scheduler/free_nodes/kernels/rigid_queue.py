"""What `transitions` do on identical nodes, each for one job; and what only concerns these."""

from __future__ import annotations

import numpy as np

from scheduler.compiled import implements, part
from scheduler.free_nodes.kernels import transitions
from scheduler.free_nodes.kernels.backfilling import INTERVALS, NODES, PLACE, RANK, TAKES_S, one_pass
from scheduler.free_nodes.kernels.free_set import AT, FIRST, LAST, NODE, is_free, lowest, take_before, toggle
from scheduler.free_nodes.kernels.queue_tree import ESTIMATE_S, JOB, N_JOBS, SIZE, close_ranks, set_leaf
from scheduler.free_nodes.kernels.queues import (
    ASKS_AGAIN_S,
    BACKFILLING,
    CONSERVATIVE,
    DOWN,
    ENOUGH,
    IS_TAKEN,
    MORE_INTERVALS,
    MORE_PLACES,
    N_BOUNDS,
    N_DOWN,
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
    starting = counts[N_BOUNDS] // 2 + most_starts(q)
    if counts[N_INTERVALS] + counts[N_DOWN] + starting > len(q.intervals):
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
        counts[N_PLACES] = close_ranks(q.tree, q.slot, q.place)
    place = counts[N_PLACES]
    counts[N_PLACES] += 1
    q.place[slot], q.slot[place] = place, slot
    q.tree[capacity + place, JOB] = q.job[slot]
    set_leaf(q.tree, place, 1.0, float(size), estimate_s)


@part
def turn_nodes(q: RigidQueue, slot: int) -> None:
    """Take the nodes of a run, or give them back."""
    n = q.counts[N_BOUNDS]
    for x in range(q.first_interval[slot], q.first_interval[slot] + q.n_intervals[slot]):
        n = toggle(q.bounds, n, q.intervals[x, FIRST], q.intervals[x, LAST])
    q.counts[N_BOUNDS] = n


@part
def take_nodes_down(q: RigidQueue) -> None:
    """Nodes that are down are not free."""
    counts = q.counts
    for x in range(counts[N_DOWN]):
        node = q.down[x, DOWN]
        if is_free(q.bounds, counts[N_BOUNDS], node, node):
            counts[N_BOUNDS] = toggle(q.bounds, counts[N_BOUNDS], node, node)
            counts[N_FREE] -= 1
            q.down[x, IS_TAKEN] = 1


@implements(transitions.give_nodes_back)
def give_nodes_back(q: RigidQueue, slot: int) -> None:
    turn_nodes(q, slot)
    q.counts[N_FREE] += q.size[slot]
    take_nodes_down(q)


@part
def set_available(q: RigidQueue, node: int, is_available: bool) -> None:
    """A node is up, or down. A run that holds it keeps it."""
    counts, x = q.counts, 0
    while x < counts[N_DOWN] and q.down[x, DOWN] != node:
        x += 1
    if is_available and x < counts[N_DOWN]:
        was_taken = q.down[x, IS_TAKEN]
        counts[N_DOWN] -= 1
        q.down[x, DOWN], q.down[x, IS_TAKEN] = q.down[counts[N_DOWN], DOWN], q.down[counts[N_DOWN], IS_TAKEN]
        if was_taken:
            counts[N_BOUNDS] = toggle(q.bounds, counts[N_BOUNDS], node, node)
            counts[N_FREE] += 1
    elif not is_available and x == counts[N_DOWN]:
        q.down[x, DOWN], q.down[x, IS_TAKEN] = node, 0
        counts[N_DOWN] += 1
        take_nodes_down(q)


@part
def decide_by(q: RigidQueue, ordering: int, backfilling: int, now_s: float) -> int:
    """As `transitions.decide`, by these policies instead of those of the queue."""
    counts = q.counts
    n_releases, n_free = counts[N_RELEASES], counts[N_FREE]
    if backfilling != CONSERVATIVE:
        return one_pass(q.tree, q.releases, n_releases, n_free, now_s, ordering, backfilling, q.started)
    r = q.reservations
    n = reserve(r, q.tree, counts[N_PLACES], q.releases, n_releases, n_free, now_s)
    for x in range(n):
        row = r.started[x]
        q.started[x, PLACE], q.started[x, NODES] = r.waiting[row, N_JOBS], r.waiting[row, SIZE]
        q.started[x, TAKES_S], q.started[x, RANK] = r.waiting[row, ESTIMATE_S], row
    q.times_s[ASKS_AGAIN_S] = first_reserved_s(r)
    return n


@implements(transitions.decide)
def decide(q: RigidQueue, now_s: float) -> int:
    return decide_by(q, q.policy[ORDERING], q.policy[BACKFILLING], now_s)


@part
def choose_nodes(q: RigidQueue, n_started: int) -> None:
    """The jobs of a decision get the free nodes with the lowest numbers: those before the cursor, still to be
    taken. They are in the next rows of `intervals`."""
    row = q.counts[N_INTERVALS]
    q.cursor[AT], q.cursor[NODE] = 0, q.bounds[0]
    for x in range(n_started):
        after = lowest(q.bounds, q.cursor, int(q.started[x, NODES]), q.intervals, row)
        q.started[x, INTERVALS] = after - row
        row = after


@part
def begin_on(q: RigidQueue, slot: int, n_intervals: int, now_s: float, end_s: float) -> None:
    """A waiting job starts on the nodes in the next rows of `intervals`, which are still to be taken."""
    counts = q.counts
    q.first_interval[slot], q.n_intervals[slot] = counts[N_INTERVALS], n_intervals
    counts[N_INTERVALS] += n_intervals
    set_leaf(q.tree, q.place[slot], 0.0, np.inf, np.inf)
    begin(q, slot, q.size[slot], now_s, end_s)
    counts[N_FREE] -= q.size[slot]
    counts[N_WAITING] -= 1


@part
def start_on(q: RigidQueue, slot: int, n_intervals: int, now_s: float, end_s: float) -> None:
    """A waiting job starts on any free nodes: those in the next rows of `intervals`."""
    begin_on(q, slot, n_intervals, now_s, end_s)
    turn_nodes(q, slot)


@implements(transitions.start)
def start(q: RigidQueue, n_started: int, now_s: float) -> None:
    choose_nodes(q, n_started)
    for x in range(n_started):
        slot, end_s = q.slot[int(q.started[x, PLACE])], now_s + q.started[x, TAKES_S]
        begin_on(q, slot, int(q.started[x, INTERVALS]), now_s, end_s)
        q.started[x, STARTED] = slot
    q.counts[N_BOUNDS] = take_before(q.bounds, q.counts[N_BOUNDS], q.cursor)
