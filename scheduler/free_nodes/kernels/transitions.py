"""How notices and decisions change a queue, for callers with many of them at a time.

These are the rules of the manager in Python (`scheduler.managers`). What depends on the nodes is `generic`:
the module of each queue implements it.
"""

from __future__ import annotations

import numpy as np

from scheduler.compiled import generic, inlined, part
from scheduler.free_nodes.kernels.estimates import first_estimate_s, learn, outlived_s
from scheduler.free_nodes.kernels.queues import (
    ALWAYS_CALLED,
    ASKS_AGAIN_S,
    ESTIMATES_BY,
    MORE_RELEASES,
    MORE_SLOTS,
    N_FREE_SLOTS,
    N_RELEASES,
    N_RUNS,
    N_WAITING,
    OUTLIVED_S,
    WANTS_ROUND,
    Queue,
)
from scheduler.free_nodes.kernels.releases import END_S, RELEASED, RUN, SLOT, insert, remove

STARTED = 0
"""Column of `started`: the slot of a job that has started."""


@generic
def most_starts(q: Queue) -> int:
    """So many jobs at most start at a time."""
    raise NotImplementedError  # never runs: each kind of queue has its implementation


@generic
def lack_of_nodes(q: Queue) -> int:
    """Which of the arrays for waiting jobs and nodes may be too small."""
    raise NotImplementedError  # never runs: each kind of queue has its implementation


@generic
def nothing_fits(q: Queue) -> bool:
    """Whether no waiting job fits now."""
    raise NotImplementedError  # never runs: each kind of queue has its implementation


@generic
def wait(q: Queue, slot: int, size: int, kind: int, estimate_s: float) -> None:
    """The job in a slot joins the queue."""
    raise NotImplementedError  # never runs: each kind of queue has its implementation


@generic
def give_nodes_back(q: Queue, slot: int) -> None:
    """What a run uses of nodes is free."""
    raise NotImplementedError  # never runs: each kind of queue has its implementation


@generic
def decide(q: Queue, now_s: float) -> int:
    """Which of the waiting jobs start, in order. Returns their number."""
    raise NotImplementedError  # never runs: each kind of queue has its implementation


@generic
def start(q: Queue, n_started: int, now_s: float) -> None:
    """The jobs of the last decision start, as consecutive runs. Their slots are in `started`."""
    raise NotImplementedError  # never runs: each kind of queue has its implementation


@inlined
def lack(q: Queue) -> int:
    """Which array may be too small for the next notice, or the next decision."""
    counts, most = q.counts, most_starts(q)
    if counts[N_RELEASES] + most + 1 > len(q.releases) or most > len(q.started):
        return MORE_RELEASES
    if counts[N_FREE_SLOTS] == 0:
        return MORE_SLOTS
    return lack_of_nodes(q)


@inlined
def something_changed(q: Queue) -> None:
    """Ask for a round if a waiting job may start."""
    if q.counts[N_WAITING] > 0 if q.policy[ALWAYS_CALLED] else not nothing_fits(q):
        q.counts[WANTS_ROUND] = 1


@inlined
def wakes_at_s(q: Queue) -> float:
    """When `time_passed` is due; infinite = never."""
    return float(min(q.times_s[OUTLIVED_S], q.times_s[ASKS_AGAIN_S]))


@part
def arrived(q: Queue, size: int, kind: int, limit_s: float, known_s: float, user: int) -> int:
    """A job arrives that requests so many nodes, or chunks of a kind of request. Returns its slot."""
    counts, e = q.counts, q.estimates
    counts[N_FREE_SLOTS] -= 1
    slot = q.free_slots[counts[N_FREE_SLOTS]]
    e.limit_s[slot], e.known_s[slot], e.user[slot] = limit_s, known_s, user
    e.n_corrections[slot] = 0
    wait(q, slot, size, kind, first_estimate_s(e, q.policy[ESTIMATES_BY], slot))
    counts[N_WAITING] += 1
    if q.policy[ALWAYS_CALLED] or not nothing_fits(q):
        counts[WANTS_ROUND] = 1
    return int(slot)


@inlined
def begin(q: Queue, slot: int, released: int, now_s: float, takes_s: float) -> None:
    """A job starts, of which the release is noted; it is the next run."""
    counts, run, end_s = q.counts, q.counts[N_RUNS], now_s + takes_s
    counts[N_RUNS] = run + 1
    insert(q.releases, counts[N_RELEASES], end_s, float(released), float(run), slot)
    counts[N_RELEASES] += 1
    q.times_s[OUTLIVED_S] = min(q.times_s[OUTLIVED_S], end_s)
    q.run[slot], q.began_s[slot], q.end_s[slot], q.holds[slot] = run, now_s, end_s, True


@part
def give_back(q: Queue, slot: int) -> None:
    """What a run uses is free, unless it was given back before."""
    if not q.holds[slot]:
        return
    q.holds[slot] = False
    counts, end_s = q.counts, q.end_s[slot]
    remove(q.releases, counts[N_RELEASES], end_s, float(q.run[slot]))
    counts[N_RELEASES] -= 1
    if end_s == q.times_s[OUTLIVED_S]:
        q.times_s[OUTLIVED_S] = q.releases[0, END_S] if counts[N_RELEASES] else np.inf
    give_nodes_back(q, slot)


@part
def ended(q: Queue, slot: int, now_s: float) -> None:
    """A run has ended; its slot is free."""
    give_back(q, slot)
    learn(q.estimates, q.policy[ESTIMATES_BY], slot, now_s - q.began_s[slot])
    q.free_slots[q.counts[N_FREE_SLOTS]] = slot
    q.counts[N_FREE_SLOTS] += 1
    something_changed(q)


@part
def released(q: Queue, slot: int, now_s: float) -> None:
    """A run is about to end; if that was expected, its nodes are free already."""
    if q.holds[slot] and q.end_s[slot] == now_s:
        give_back(q, slot)


@part
def time_passed(q: Queue, now_s: float) -> None:
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
