"""A machine of identical nodes with its queue, and how notices and decisions change them.

These are the rules of the manager in Python (`scheduler.managers`), for callers with many notices at a time.
A job that waits or runs has a slot; jobs arrive in order of service.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import Flags, Floats, Floats2, Ints, Ints2, inlined, part
from scheduler.free_nodes.kernels.backfilling import NODES, PLACE, TAKES_S, one_pass
from scheduler.free_nodes.kernels.estimates import EstimateTable, first_estimate_s, learn, outlived_s
from scheduler.free_nodes.kernels.free_set import AT, FIRST, LAST, NODE, lowest, take_before, toggle
from scheduler.free_nodes.kernels.queue_tree import ESTIMATE_S, JOB, N_JOBS, SIZE, Tree, close_ranks, set_leaf
from scheduler.free_nodes.kernels.releases import (
    END_S,
    RELEASED,
    RUN,
    SLOT,
    ReleaseTable,
    insert,
    remove,
)
from scheduler.free_nodes.kernels.reservations import Reservations, first_reserved_s, reserve

ORDERING, BACKFILLING, ESTIMATES_BY, ALWAYS_CALLED = range(4)
"""Places in `RigidQueue.policy`."""

CONSERVATIVE = 3
"""In the place of a code of `Backfilling`: a reservation for each job."""

N_FREE, N_BOUNDS, N_PLACES, N_WAITING, N_RELEASES, N_RUNS, N_INTERVALS, N_FREE_SLOTS, WANTS_ROUND = range(9)
"""Places in `RigidQueue.counts`. N_RUNS is also the number of the next run."""

OUTLIVED_S, ASKS_AGAIN_S = range(2)
"""Places in `RigidQueue.times_s`: when the next run exceeds its estimate, and when the scheduler asked to be
called again; infinite = never."""

ENOUGH, MORE_PLACES, MORE_RELEASES, MORE_INTERVALS, MORE_SLOTS = range(5)
"""What must grow before the next notice."""


class RigidQueue(NamedTuple):
    """What waits, what runs, and what is free. Its owner replaces arrays that are too small."""

    policy: Ints
    counts: Ints
    times_s: Floats
    tree: Tree  # JOB is the slot
    releases: ReleaseTable  # SLOT is that of the job
    bounds: Ints  # twice as many as `intervals`, and 4: each interval held splits one that is free
    cursor: Ints
    started: Floats2  # of a pass
    reservations: Reservations
    estimates: EstimateTable
    # by slot
    size: Ints
    place: Ints
    run: Ints
    began_s: Floats
    end_s: Floats  # as expected
    holds: Flags
    first_interval: Ints
    n_intervals: Ints
    free_slots: Ints
    # the nodes of runs
    intervals: Ints2


@inlined
def lack(q: RigidQueue) -> int:
    """Which array may be too small for the next notice, or the next decision."""
    counts, capacity = q.counts, len(q.tree) // 2
    most = min(counts[N_WAITING], counts[N_FREE])  # jobs that start
    if counts[N_PLACES] == capacity and 2 * counts[N_WAITING] > capacity:
        return MORE_PLACES
    if counts[N_RELEASES] + most + 1 > len(q.releases) or most > len(q.started):
        return MORE_RELEASES
    if counts[N_FREE_SLOTS] == 0:
        return MORE_SLOTS
    if counts[N_INTERVALS] + counts[N_BOUNDS] // 2 + most > len(q.intervals):
        return MORE_INTERVALS
    return ENOUGH


@inlined
def nothing_fits(q: RigidQueue) -> bool:
    return bool(q.tree[1, SIZE] > q.counts[N_FREE])


@inlined
def something_changed(q: RigidQueue) -> None:
    """Ask for a round if a waiting job may start."""
    if q.counts[N_WAITING] > 0 if q.policy[ALWAYS_CALLED] else not nothing_fits(q):
        q.counts[WANTS_ROUND] = 1


@inlined
def wakes_at_s(q: RigidQueue) -> float:
    """When `time_passed` is due; infinite = never."""
    return float(min(q.times_s[OUTLIVED_S], q.times_s[ASKS_AGAIN_S]))


@part
def arrived(q: RigidQueue, size: int, limit_s: float, known_s: float, user: int) -> int:
    """A job of so many nodes arrives. Returns its slot."""
    counts, e = q.counts, q.estimates
    counts[N_FREE_SLOTS] -= 1
    slot = q.free_slots[counts[N_FREE_SLOTS]]
    q.size[slot], e.limit_s[slot], e.known_s[slot], e.user[slot] = size, limit_s, known_s, user
    e.n_corrections[slot] = 0
    if counts[N_PLACES] == len(q.tree) // 2:
        counts[N_PLACES] = close_ranks(q.tree, q.place)
    place = counts[N_PLACES]
    counts[N_PLACES] += 1
    q.place[slot] = place
    q.tree[len(q.tree) // 2 + place, JOB] = slot
    set_leaf(q.tree, place, 1.0, float(size), first_estimate_s(e, q.policy[ESTIMATES_BY], slot))
    counts[N_WAITING] += 1
    if q.policy[ALWAYS_CALLED] or not nothing_fits(q):
        counts[WANTS_ROUND] = 1
    return int(slot)


@part
def give_back(q: RigidQueue, slot: int) -> None:
    """The nodes of a run are free, unless they were given back before."""
    if not q.holds[slot]:
        return
    q.holds[slot] = False
    counts, end_s = q.counts, q.end_s[slot]
    remove(q.releases, counts[N_RELEASES], end_s, float(q.run[slot]))
    counts[N_RELEASES] -= 1
    if end_s == q.times_s[OUTLIVED_S]:
        q.times_s[OUTLIVED_S] = q.releases[0, END_S] if counts[N_RELEASES] else np.inf
    n = counts[N_BOUNDS]
    for x in range(q.first_interval[slot], q.first_interval[slot] + q.n_intervals[slot]):
        n = toggle(q.bounds, n, q.intervals[x, FIRST], q.intervals[x, LAST])
    counts[N_BOUNDS] = n
    counts[N_FREE] += q.size[slot]


@part
def ended(q: RigidQueue, slot: int, now_s: float) -> None:
    """A run has ended; its slot is free."""
    give_back(q, slot)
    learn(q.estimates, q.policy[ESTIMATES_BY], slot, now_s - q.began_s[slot])
    q.free_slots[q.counts[N_FREE_SLOTS]] = slot
    q.counts[N_FREE_SLOTS] += 1
    something_changed(q)


@part
def released(q: RigidQueue, slot: int, now_s: float) -> None:
    """A run is about to end; if that was expected, its nodes are free already."""
    if q.holds[slot] and q.end_s[slot] == now_s:
        give_back(q, slot)


@part
def time_passed(q: RigidQueue, now_s: float) -> None:
    """Estimate the runs again that should have ended by now."""
    releases, n = q.releases, q.counts[N_RELEASES]
    while n > 0 and releases[0, END_S] <= now_s:
        end_s, run, size = releases[0, END_S], releases[0, RUN], releases[0, RELEASED]
        slot = int(releases[0, SLOT])
        began_s = q.began_s[slot]
        more_s = outlived_s(q.estimates, q.policy[ESTIMATES_BY], slot, now_s - began_s)
        later_s = max(began_s + more_s, now_s + 1.0)  # or time would not advance
        remove(releases, n, end_s, run)
        insert(releases, n - 1, later_s, size, run, slot)
        q.end_s[slot] = later_s
    q.times_s[OUTLIVED_S] = releases[0, END_S] if n > 0 else np.inf
    if q.times_s[ASKS_AGAIN_S] <= now_s:
        q.times_s[ASKS_AGAIN_S] = np.inf
    something_changed(q)


@part
def decide(q: RigidQueue, now_s: float) -> int:
    """Which of the waiting jobs start: the first rows of `q.started`, in order. Returns their number."""
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


@part
def start(q: RigidQueue, n_started: int, now_s: float) -> None:
    """The first rows of `q.started` get the free nodes with the lowest numbers, and consecutive runs. Their
    slots replace PLACE."""
    counts, capacity = q.counts, len(q.tree) // 2
    q.cursor[AT], q.cursor[NODE] = 0, q.bounds[0]
    for x in range(n_started):
        place, size, takes_s = int(q.started[x, PLACE]), int(q.started[x, NODES]), q.started[x, TAKES_S]
        slot = int(q.tree[capacity + place, JOB])
        set_leaf(q.tree, place, 0.0, np.inf, np.inf)
        run, end_s, before = counts[N_RUNS], now_s + takes_s, counts[N_INTERVALS]
        counts[N_RUNS] = run + 1
        counts[N_INTERVALS] = lowest(q.bounds, q.cursor, size, q.intervals, before)
        q.first_interval[slot], q.n_intervals[slot] = before, counts[N_INTERVALS] - before
        insert(q.releases, counts[N_RELEASES], end_s, float(size), float(run), slot)
        counts[N_RELEASES] += 1
        q.times_s[OUTLIVED_S] = min(q.times_s[OUTLIVED_S], end_s)
        q.run[slot], q.began_s[slot], q.end_s[slot], q.holds[slot] = run, now_s, end_s, True
        counts[N_FREE] -= size
        q.started[x, PLACE] = slot
    counts[N_WAITING] -= n_started
    counts[N_BOUNDS] = take_before(q.bounds, counts[N_BOUNDS], q.cursor)
