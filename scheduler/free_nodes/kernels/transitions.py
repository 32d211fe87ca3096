"""How notices and decisions change a queue, given the estimates.

A compiled caller gives many notices at a time; `python_entry_points` has the transitions for a manager in
Python. What depends on the nodes is `generic`: the module of each queue implements it. Estimates are given.
"""

from __future__ import annotations

import numpy as np

from scheduler.compiled import generic, inlined, part
from scheduler.free_nodes.kernels.free_over_time import END_S, RELEASED, RUN, SLOT, insert, remove
from scheduler.free_nodes.kernels.queues import (
    ALWAYS_CALLED,
    ASKS_AGAIN_S,
    MORE_SLOTS,
    N_FREE_SLOTS,
    N_RELEASES,
    N_RUNS,
    N_WAITING,
    WANTS_ROUND,
    Q,
)
from scheduler.free_nodes.runtime_estimates import SHORTEST_S

STARTED = 0
"""Column of `started`: the slot of a job that has started."""

NONE = -1


@generic
def most_starts(q: Q) -> int:
    """So many jobs at most start at a time."""
    raise NotImplementedError  # never runs: each kind of queue has its implementation


@generic
def lack_of_nodes(q: Q) -> int:
    """Which of the arrays for waiting jobs and nodes may be too small."""
    raise NotImplementedError  # never runs: each kind of queue has its implementation


@generic
def nothing_fits(q: Q) -> bool:
    """Whether no waiting job fits now."""
    raise NotImplementedError  # never runs: each kind of queue has its implementation


@generic
def wait(q: Q, slot: int, size: int, kind: int, estimate_s: float) -> None:
    """The job in a slot joins the queue."""
    raise NotImplementedError  # never runs: each kind of queue has its implementation


@generic
def give_nodes_back(q: Q, slot: int) -> None:
    """What a run uses of nodes is free."""
    raise NotImplementedError  # never runs: each kind of queue has its implementation


@generic
def decide(q: Q, now_s: float) -> int:
    """Which of the waiting jobs start, in order. Returns their number."""
    raise NotImplementedError  # never runs: each kind of queue has its implementation


@generic
def start(q: Q, n_started: int, now_s: float) -> None:
    """The jobs of the last decision start, as consecutive runs. Their slots are in `started`."""
    raise NotImplementedError  # never runs: each kind of queue has its implementation


@inlined
def lack(q: Q) -> int:
    """Which array may be too small for the next notice, or the next decision. Those for releases and starts
    have a row for each slot."""
    return MORE_SLOTS if q.counts[N_FREE_SLOTS] == 0 else lack_of_nodes(q)


@inlined
def something_changed(q: Q) -> None:
    """Ask for a round if a waiting job may start."""
    if q.counts[N_WAITING] > 0 if q.policy[ALWAYS_CALLED] else not nothing_fits(q):
        q.counts[WANTS_ROUND] = 1


@inlined
def wakes_at_s(q: Q) -> float:
    """When `time_passed` is due: a run exceeds its estimate then, or the scheduler asked for it; infinite =
    never."""
    outlived_s = q.releases[0, END_S] if q.counts[N_RELEASES] > 0 else np.inf
    return float(min(outlived_s, q.times_s[ASKS_AGAIN_S]))


@part
def arrived(q: Q, job: int, size: int, kind: int, estimate_s: float, since_s: float) -> int:
    """A job arrives that requests so many nodes, or chunks of a kind of request, and waits since then.
    Returns its slot."""
    q.counts[N_FREE_SLOTS] -= 1
    slot = q.free_slots[q.counts[N_FREE_SLOTS]]
    q.job[slot], q.began_s[slot] = job, since_s
    wait(q, slot, size, kind, max(estimate_s, SHORTEST_S))
    q.counts[N_WAITING] += 1
    something_changed(q)
    return int(slot)


@inlined
def begin(q: Q, slot: int, released: int, now_s: float, end_s: float) -> None:
    """A job starts, of which the release is noted; it is the next run."""
    counts, run = q.counts, q.counts[N_RUNS]
    counts[N_RUNS] = run + 1
    insert(q.releases, counts[N_RELEASES], end_s, float(released), float(run), slot)
    counts[N_RELEASES] += 1
    q.run[slot], q.began_s[slot], q.end_s[slot], q.holds[slot] = run, now_s, end_s, True


@part
def give_back(q: Q, slot: int) -> None:
    """What a run uses is free, unless it was given back before."""
    if not q.holds[slot]:
        return
    q.holds[slot] = False
    remove(q.releases, q.counts[N_RELEASES], q.end_s[slot], float(q.run[slot]))
    q.counts[N_RELEASES] -= 1
    give_nodes_back(q, slot)


@part
def ended(q: Q, slot: int) -> None:
    """A run has ended; its slot is free."""
    give_back(q, slot)
    q.free_slots[q.counts[N_FREE_SLOTS]] = slot
    q.counts[N_FREE_SLOTS] += 1
    something_changed(q)


@part
def released(q: Q, slot: int, now_s: float) -> None:
    """A run is about to end; if that was expected, its nodes are free already."""
    if q.holds[slot] and q.end_s[slot] == now_s:
        give_back(q, slot)


@inlined
def overdue(q: Q, now_s: float) -> int:
    """The slot of the first run that should have ended by now, or NONE."""
    if q.counts[N_RELEASES] == 0 or q.releases[0, END_S] > now_s:
        return NONE
    return int(q.releases[0, SLOT])


@part
def takes_longer(q: Q, slot: int, takes_s: float, now_s: float) -> None:
    """The run that is overdue is now expected to take so long."""
    releases, n = q.releases, q.counts[N_RELEASES]
    end_s, run, size = releases[0, END_S], releases[0, RUN], releases[0, RELEASED]
    later_s = max(q.began_s[slot] + takes_s, now_s + 1.0)  # or time would not advance
    remove(releases, n, end_s, run)
    insert(releases, n - 1, later_s, size, run, slot)
    q.end_s[slot] = later_s


@part
def time_passed(q: Q, now_s: float) -> None:
    """No run is overdue any more; the scheduler may have asked to be called."""
    if q.times_s[ASKS_AGAIN_S] <= now_s:
        q.times_s[ASKS_AGAIN_S] = np.inf
    something_changed(q)
