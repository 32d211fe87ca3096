"""The event loop of `sil.world.harness` for compiled queues."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import (
    FixedFlags,
    FixedFloats,
    FixedInts,
    Flags,
    Floats,
    Ints,
    generic,
    inlined,
    part,
)
from scheduler.free_nodes.kernels import transitions
from scheduler.free_nodes.kernels.queues import (
    BACKFILLING,
    CONSERVATIVE,
    ENOUGH,
    N_RELEASES,
    N_WAITING,
    WANTS_ROUND,
    Q,
)
from scheduler.free_nodes.kernels.transitions import (
    NONE,
    arrived,
    decide,
    ended,
    lack,
    most_starts,
    overdue,
    released,
    start,
    takes_longer,
    time_passed,
    wakes_at_s,
)
from sil.world.compiled_replay.estimates import EstimateTable, first_estimate_s, learn, outlived_s
from sil.world.compiled_replay.facts import (
    ARRIVED,
    ENDED,
    N_DECISIONS,
    N_FACTS,
    REFUSED,
    STARTED,
    Facts,
    note,
)

ROUND, WAKE_UP, ARRIVAL, RELEASE, END = range(5)
"""Kinds of events, and their places in `Site.rank`."""

NEXT, N_UNFINISHED, ROUND_IS_DUE, N_RUNNING, FIRST_RELEASED, N_RELEASED, N_IDLE, LACK, STARTING, TEXT = range(
    10
)
"""Places in `Site.counts`. N_IDLE are rounds in a row without an arrival or an end; LACK is of the queue, and
STARTING and TEXT are `most_starts` and `most_text`."""

NOW_S, ROUND_S, WAKE_UP_S, WAKES_S, IDLE_SINCE_S = range(5)
"""Places in `Site.times_s`; infinite = never. The queue is woken up at WAKE_UP_S; it asked for WAKES_S."""

ALL_ENDED, CHUNK, QUEUE_LACKS, FACTS_LACK, SITE_LACKS, STUCK, PAUSE = range(7)
"""Why the loop returns."""

PAUSE_AFTER = 10_000_000
"""Steps, about one for each waiting job at each event, after which signals are handled: some tenths of a
second at most."""

RELEASES_FIRST = 5
"""Place in `Site.rank`: whether runs release their nodes before their end is reported."""


class Site(NamedTuple):
    """The jobs that arrive, and what runs."""

    counts: Ints
    times_s: Floats
    rank: Ints  # among simultaneous events, by kind
    # by job, in order of arrival
    submit_s: FixedFloats
    run_s: FixedFloats
    size: FixedInts
    kind: FixedInts  # of request
    limit_s: FixedFloats
    user: FixedInts
    refused: FixedFlags
    # what runs, by end and then run: a heap
    end_s: Floats
    run: Ints
    slot: Ints
    # slots of what has released its nodes and not ended
    released: Ints
    marks: Flags  # by node: work space
    estimates: EstimateTable


@generic
def most_text(q: Q) -> int:
    """So many bytes at most state what the jobs of one decision use."""
    raise NotImplementedError  # never runs: each kind of queue has its implementation


@generic
def write_use(q: Q, x: int, f: Facts, fact: int, marks: Flags) -> None:
    """Add what the job in row x of `started` uses as the text of the newest fact. All `marks` are False."""
    raise NotImplementedError  # never runs: each kind of queue has its implementation


@part
def push(site: Site, end_s: float, run: int, slot: int) -> None:
    k = site.counts[N_RUNNING]
    while k > 0:
        up = (k - 1) >> 1
        if site.end_s[up] < end_s or (site.end_s[up] == end_s and site.run[up] < run):
            break
        site.end_s[k], site.run[k], site.slot[k] = site.end_s[up], site.run[up], site.slot[up]
        k = up
    site.end_s[k], site.run[k], site.slot[k] = end_s, run, slot
    site.counts[N_RUNNING] += 1


@part
def pop(site: Site) -> int:
    """Take out the first run. Returns its slot."""
    n, first = site.counts[N_RUNNING] - 1, site.slot[0]
    end_s, run, slot, k = site.end_s[n], site.run[n], site.slot[n], 0
    while True:
        down = 2 * k + 1
        if down >= n:
            break
        right = down + 1
        if right < n and (
            site.end_s[right] < site.end_s[down]
            or (site.end_s[right] == site.end_s[down] and site.run[right] < site.run[down])
        ):
            down = right
        if end_s < site.end_s[down] or (end_s == site.end_s[down] and run < site.run[down]):
            break
        site.end_s[k], site.run[k], site.slot[k] = site.end_s[down], site.run[down], site.slot[down]
        k = down
    site.end_s[k], site.run[k], site.slot[k] = end_s, run, slot
    site.counts[N_RUNNING] = n
    return int(first)


@inlined
def next_event(site: Site, rank: Ints) -> int:
    """The kind of the next event, whose time becomes now; infinite if there is none."""
    times_s, counts = site.times_s, site.counts
    now_s = times_s[NOW_S]
    kind, first_s = ROUND, times_s[ROUND_S]
    for other in range(WAKE_UP, END + 1):
        time_s = np.inf
        if other == WAKE_UP:
            time_s = times_s[WAKE_UP_S]
        elif other == ARRIVAL:
            if counts[NEXT] < len(site.submit_s):
                time_s = site.submit_s[counts[NEXT]]
        elif other == RELEASE:
            if rank[RELEASES_FIRST] and counts[N_RUNNING] > 0:
                time_s = site.end_s[0]
        elif rank[RELEASES_FIRST]:
            if counts[N_RELEASED] > 0:
                time_s = now_s
        elif counts[N_RUNNING] > 0:
            time_s = site.end_s[0]
        if time_s < first_s or (time_s == first_s and rank[other] < rank[kind]):
            kind, first_s = other, time_s
    times_s[NOW_S] = first_s
    return kind


@inlined
def what_ends(site: Site, q: Q, f: Facts) -> int:
    """Why the loop returns before the next event: all jobs have ended, or some arrays may be too small. CHUNK
    if it goes on."""
    counts = site.counts
    if counts[NEXT] == len(site.submit_s) and counts[N_UNFINISHED] == 0 and counts[ROUND_IS_DUE] == 0:
        return ALL_ENDED
    site.counts[LACK] = lack(q)
    if site.counts[LACK] != ENOUGH:
        return QUEUE_LACKS
    most = most_starts(q) + 1
    site.counts[STARTING], site.counts[TEXT] = most, most_text(q)
    if f.counts[N_FACTS] + most + 1 > len(f.time_s) or f.counts[N_DECISIONS] == len(f.asked_s):
        return FACTS_LACK
    if f.text_end[f.counts[N_FACTS]] + site.counts[TEXT] > len(f.text):
        return FACTS_LACK
    if site.counts[N_RUNNING] + site.counts[N_RELEASED] + most > len(site.end_s):
        return SITE_LACKS
    return CHUNK


@inlined
def carry_out(site: Site, q: Q, f: Facts, now_s: float, n_started: int) -> None:
    """The jobs of a decision start."""
    k = f.counts[N_DECISIONS]
    f.asked_s[k], f.n_waiting[k], f.n_started[k] = now_s, q.counts[N_WAITING], n_started
    f.counts[N_DECISIONS] = k + 1
    start(q, n_started, now_s)
    for x in range(n_started):
        slot = int(q.started[x, transitions.STARTED])
        job = q.job[slot]
        fact = note(f, now_s, STARTED, job, q.run[slot], q.end_s[slot] - now_s)
        write_use(q, x, f, fact, site.marks)
        push(site, now_s + site.run_s[job], q.run[slot], slot)


@part
def run_round(site: Site, q: Q, f: Facts, now_s: float) -> None:
    q.counts[WANTS_ROUND] = 0
    if q.counts[N_WAITING] == 0:
        return
    carry_out(site, q, f, now_s, decide(q, now_s))


@part
def next_job_arrives(site: Site, q: Q, f: Facts, now_s: float) -> None:
    job = site.counts[NEXT]
    site.counts[NEXT] += 1
    site.counts[N_IDLE] = 0
    note(f, now_s, ARRIVED, job, 0, 0.0)
    if site.refused[job]:
        note(f, now_s, REFUSED, job, 0, 0.0)
        return
    site.counts[N_UNFINISHED] += 1
    estimate_s = first_estimate_s(site.estimates, site.limit_s[job], site.run_s[job], site.user[job])
    arrived(q, job, site.size[job], site.kind[job], estimate_s, now_s)


@part
def estimate_overdue(site: Site, q: Q, now_s: float) -> None:
    """Estimate the runs again that should have ended by now."""
    slot = overdue(q, now_s)
    while slot != NONE:
        job, ran_s = q.job[slot], now_s - q.began_s[slot]
        takes_longer(q, slot, outlived_s(site.estimates, job, site.limit_s[job], ran_s), now_s)
        slot = overdue(q, now_s)


@inlined
def is_endless(site: Site, most_idle: int, least_step_s: float) -> bool:
    """One more idle round: whether there were too many, without the time passing that they may take."""
    counts, times_s = site.counts, site.times_s
    if counts[N_IDLE] == 0:
        times_s[IDLE_SINCE_S] = times_s[NOW_S]
    counts[N_IDLE] += 1
    if counts[N_IDLE] <= most_idle:
        return False
    n = counts[N_IDLE] - 1
    may_go_on = counts[NEXT] < len(site.submit_s) or counts[N_RUNNING] > 0
    if may_go_on and times_s[NOW_S] - times_s[IDLE_SINCE_S] >= n * least_step_s:
        counts[N_IDLE] = 0
        return False
    return True


@inlined
def happens(site: Site, q: Q, f: Facts, kind: int, now_s: float) -> None:
    """An event that is no round."""
    counts, times_s = site.counts, site.times_s
    if kind == WAKE_UP:
        times_s[WAKE_UP_S] = np.inf
        estimate_overdue(site, q, now_s)
        time_passed(q, now_s)
    elif kind == ARRIVAL:
        next_job_arrives(site, q, f, now_s)
    elif kind == RELEASE:
        slot = pop(site)
        site.released[(counts[FIRST_RELEASED] + counts[N_RELEASED]) % len(site.released)] = slot
        counts[N_RELEASED] += 1
        released(q, slot, now_s)
    else:
        if site.rank[RELEASES_FIRST]:
            slot = int(site.released[counts[FIRST_RELEASED]])
            counts[FIRST_RELEASED] = (counts[FIRST_RELEASED] + 1) % len(site.released)
            counts[N_RELEASED] -= 1
        else:
            slot = pop(site)
        job = q.job[slot]
        note(f, now_s, ENDED, job, q.run[slot], 0.0)
        counts[N_UNFINISHED] -= 1
        counts[N_IDLE] = 0
        learn(site.estimates, site.user[job], now_s - q.began_s[slot])
        ended(q, slot)


@inlined
def note_what_is_due(site: Site, q: Q, now_s: float) -> None:
    """After an event: whether a round is, and when the queue is to be woken up."""
    counts, times_s = site.counts, site.times_s
    if counts[ROUND_IS_DUE] == 0 and q.counts[WANTS_ROUND]:
        counts[ROUND_IS_DUE] = 1
        times_s[ROUND_S] = now_s
    wakes_s = wakes_at_s(q)
    if wakes_s != times_s[WAKES_S]:
        times_s[WAKES_S] = wakes_s
        times_s[WAKE_UP_S] = max(wakes_s, now_s)


def advance(site: Site, q: Q, f: Facts, chunk: int, most_idle: int, least_step_s: float) -> int:
    """Go on until all jobs have ended, a run has ended and the facts are a `chunk`, or an array is too small.
    Returns why, which may also be a pause. Nothing is half done."""
    counts, times_s, left = site.counts, site.times_s, PAUSE_AFTER
    while True:
        why = what_ends(site, q, f)
        if why != CHUNK:
            return why
        if left < 0:
            return PAUSE
        left -= 10 + q.counts[N_WAITING]
        kind = next_event(site, site.rank)
        now_s = times_s[NOW_S]
        if now_s == np.inf:
            return STUCK
        is_full = False
        if kind == ROUND:
            if q.policy[BACKFILLING] == CONSERVATIVE:
                left -= q.counts[N_WAITING] * (q.counts[N_WAITING] + q.counts[N_RELEASES])
            times_s[ROUND_S] = np.inf
            counts[ROUND_IS_DUE] = 0
            if is_endless(site, most_idle, least_step_s):
                return STUCK
            run_round(site, q, f, now_s)
        else:
            happens(site, q, f, kind, now_s)
            is_full = kind == END and f.counts[N_FACTS] >= chunk
        note_what_is_due(site, q, now_s)
        if is_full:
            return CHUNK
