"""The event loop of `sil.world.harness` for compiled queues."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from scheduler.compiled import Floats, Initially, Ints, generic, inlined, part
from scheduler.free_nodes.kernels.ledger import (
    CONSERVATIVE,
    ENOUGH,
    NONE,
    Q,
    arrived,
    decide,
    ended,
    extend_estimate,
    lack,
    most_starts,
    overdue,
    released,
    start,
    time_passed,
    wakes_at_s,
)
from scheduler.node_resources.kernels.heap import pop, push
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
from sil.world.compiled_replay.jobs import Jobs

ROUND, WAKE_UP, ARRIVAL, RELEASE, END = range(5)
"""Kinds of events, and their places in `Site.rank`."""

ALL_ENDED, CHUNK, QUEUE_LACKS, FACTS_LACK, STUCK, PAUSE = range(6)
"""Why the loop returns."""

PAUSE_AFTER = 10_000_000
"""Steps, about one for each waiting job at each event, after which signals are handled: some tenths of a
second at most."""

Never = Annotated[Floats, Initially(np.inf)]


class Clock(NamedTuple):
    """What happens when. Times are infinite for what never happens."""

    now_s: Floats
    round_s: Never
    wake_up_s: Never
    """When the queue is woken up, which asked for `wakes_s`."""
    wakes_s: Never
    idle_since_s: Floats
    n_idle: Ints
    """Rounds in a row without an arrival or an end."""
    next_job: Ints
    n_unfinished: Ints
    round_is_due: Ints
    lack: Ints
    """Of the queue."""
    most_starts: Ints
    most_held: Ints
    rank: Annotated[Ints, 5]
    """Among simultaneous events, by kind."""
    releases_first: Ints
    """Whether runs release their nodes before their end is reported."""
    n_running: Ints
    running: Annotated[Ints, "slots"]
    """The slots of what runs: a heap, by end and then run."""
    end_s: Annotated[Floats, "slots"]
    """Of runs, by slot."""
    n_released: Ints
    first_released: Ints
    released: Annotated[Ints, "slots"]
    """The slots of what has released its nodes and not ended: a ring."""


class Site(NamedTuple):
    """The jobs that arrive, and what runs."""

    jobs: Jobs
    clock: Clock
    estimates: EstimateTable


@generic
def most_held(q: Q) -> int:
    """How many rows at most state what the jobs of one decision hold."""
    raise NotImplementedError  # never runs: each kind of queue has its implementation


@generic
def note_held(q: Q, x: int, f: Facts, fact: int) -> None:
    """Add what the job in row x of `started` holds to the newest fact."""
    raise NotImplementedError  # never runs: each kind of queue has its implementation


@inlined
def next_event(site: Site) -> int:
    """The kind of the next event, whose time becomes now; infinite if there is none."""
    clock, rank, releases_first = site.clock, site.clock.rank, site.clock.releases_first[0]
    kind, first_s = ROUND, clock.round_s[0]
    for other in range(WAKE_UP, END + 1):
        time_s = np.inf
        if other == WAKE_UP:
            time_s = clock.wake_up_s[0]
        elif other == ARRIVAL:
            if clock.next_job[0] < len(site.jobs.submit_s):
                time_s = site.jobs.submit_s[clock.next_job[0]]
        elif other == END and releases_first:
            if clock.n_released[0] > 0:
                time_s = clock.now_s[0]
        elif (other == END or releases_first) and clock.n_running[0] > 0:
            time_s = clock.end_s[clock.running[0]]
        if time_s < first_s or (time_s == first_s and rank[other] < rank[kind]):
            kind, first_s = other, time_s
    clock.now_s[0] = first_s
    return kind


@inlined
def what_ends(site: Site, q: Q, f: Facts) -> int:
    """Why the loop returns before the next event: all jobs have ended, or some arrays may be too small. CHUNK
    if it goes on."""
    clock = site.clock
    if (
        clock.next_job[0] == len(site.jobs.submit_s)
        and clock.n_unfinished[0] == 0
        and clock.round_is_due[0] == 0
    ):
        return ALL_ENDED
    clock.lack[0] = lack(q)
    if clock.lack[0] != ENOUGH:
        return QUEUE_LACKS
    most = most_starts(q) + 1
    clock.most_starts[0], clock.most_held[0] = most, most_held(q)
    if f.counts[N_FACTS] + most + 1 > len(f.time_s) or f.counts[N_DECISIONS] == len(f.asked_s):
        return FACTS_LACK
    if f.held_end[f.counts[N_FACTS]] + clock.most_held[0] > len(f.held):
        return FACTS_LACK
    return CHUNK


@inlined
def carry_out(site: Site, q: Q, f: Facts, now_s: float, n_started: int) -> None:
    """The jobs of a decision start."""
    k, clock, ledger = f.counts[N_DECISIONS], site.clock, q.ledger
    f.asked_s[k], f.n_waiting[k], f.n_started[k] = now_s, ledger.n_waiting[0], n_started
    f.counts[N_DECISIONS] = k + 1
    start(q, n_started, now_s)
    for x in range(n_started):
        slot = ledger.started[x]
        job = ledger.job[slot]
        fact = note(f, now_s, STARTED, job, ledger.run[slot], ledger.end_s[slot] - now_s)
        note_held(q, x, f, fact)
        clock.end_s[slot] = now_s + site.jobs.run_s[job]
        push(clock.running, clock.n_running, clock.end_s, ledger.run, slot)


@part
def run_round(site: Site, q: Q, f: Facts, now_s: float) -> None:
    q.ledger.wants_round[0] = 0
    if q.ledger.n_waiting[0] > 0:
        carry_out(site, q, f, now_s, decide(q, now_s))


@part
def next_job_arrives(site: Site, q: Q, f: Facts, now_s: float) -> None:
    clock, jobs = site.clock, site.jobs
    job = clock.next_job[0]
    clock.next_job[0] = job + 1
    clock.n_idle[0] = 0
    note(f, now_s, ARRIVED, job, 0, 0.0)
    if jobs.refused[job]:
        note(f, now_s, REFUSED, job, 0, 0.0)
        return
    clock.n_unfinished[0] += 1
    estimate_s = first_estimate_s(site.estimates, jobs.limit_s[job], jobs.run_s[job], jobs.user[job])
    arrived(q, job, jobs.size[job], jobs.kind[job], estimate_s, now_s)


@part
def estimate_overdue(site: Site, q: Q, now_s: float) -> None:
    """Estimate the runs again that should have ended by now."""
    ledger = q.ledger
    slot = overdue(ledger, now_s)
    while slot != NONE:
        job, ran_s = ledger.job[slot], now_s - ledger.began_s[slot]
        extend_estimate(ledger, outlived_s(site.estimates, job, site.jobs.limit_s[job], ran_s), now_s)
        slot = overdue(ledger, now_s)


@inlined
def is_endless(site: Site, most_idle: int, least_step_s: float) -> bool:
    """One more idle round: whether there were too many, without the time passing that they may take."""
    clock = site.clock
    n = clock.n_idle[0]
    if n == 0:
        clock.idle_since_s[0] = clock.now_s[0]
    clock.n_idle[0] = n + 1
    if n < most_idle:
        return False
    may_go_on = clock.next_job[0] < len(site.jobs.submit_s) or clock.n_running[0] > 0
    if may_go_on and clock.now_s[0] - clock.idle_since_s[0] >= n * least_step_s:
        clock.n_idle[0] = 0
        return False
    return True


@inlined
def happens(site: Site, q: Q, f: Facts, kind: int, now_s: float) -> None:
    """An event that is no round."""
    clock, ledger = site.clock, q.ledger
    if kind == WAKE_UP:
        clock.wake_up_s[0] = np.inf
        estimate_overdue(site, q, now_s)
        time_passed(q, now_s)
    elif kind == ARRIVAL:
        next_job_arrives(site, q, f, now_s)
    elif kind == RELEASE:
        slot = pop(clock.running, clock.n_running, clock.end_s, ledger.run)
        clock.released[(clock.first_released[0] + clock.n_released[0]) % len(clock.released)] = slot
        clock.n_released[0] += 1
        released(q, slot, now_s)
    else:
        if clock.releases_first[0]:
            slot = int(clock.released[clock.first_released[0]])
            clock.first_released[0] = (clock.first_released[0] + 1) % len(clock.released)
            clock.n_released[0] -= 1
        else:
            slot = pop(clock.running, clock.n_running, clock.end_s, ledger.run)
        job = ledger.job[slot]
        note(f, now_s, ENDED, job, ledger.run[slot], 0.0)
        clock.n_unfinished[0] -= 1
        clock.n_idle[0] = 0
        learn(site.estimates, site.jobs.user[job], now_s - ledger.began_s[slot])
        ended(q, slot)


@inlined
def note_what_is_due(site: Site, q: Q, now_s: float) -> None:
    """After an event: whether a round is, and when the queue is to be woken up."""
    clock = site.clock
    if clock.round_is_due[0] == 0 and q.ledger.wants_round[0]:
        clock.round_is_due[0] = 1
        clock.round_s[0] = now_s
    wakes_s = wakes_at_s(q.ledger)
    if wakes_s != clock.wakes_s[0]:
        clock.wakes_s[0] = wakes_s
        clock.wake_up_s[0] = max(wakes_s, now_s)


def advance(site: Site, q: Q, f: Facts, chunk: int, most_idle: int, least_step_s: float) -> int:
    """Go on until all jobs have ended, a run has ended and the facts are a `chunk`, or an array is too small.
    Returns why, which may also be a pause. Nothing is half done."""
    clock, ledger, left = site.clock, q.ledger, PAUSE_AFTER
    while True:
        why = what_ends(site, q, f)
        if why != CHUNK:
            return why
        if left < 0:
            return PAUSE
        n_waiting = ledger.n_waiting[0]
        left -= 10 + n_waiting
        kind = next_event(site)
        now_s = clock.now_s[0]
        if now_s == np.inf:
            return STUCK
        is_full = False
        if kind == ROUND:
            if ledger.backfilling[0] == CONSERVATIVE:
                left -= n_waiting * (n_waiting + ledger.releases.n[0])
            clock.round_s[0], clock.round_is_due[0] = np.inf, 0
            if is_endless(site, most_idle, least_step_s):
                return STUCK
            run_round(site, q, f, now_s)
        else:
            happens(site, q, f, kind, now_s)
            is_full = kind == END and f.counts[N_FACTS] >= chunk
        note_what_is_due(site, q, now_s)
        if is_full:
            return CHUNK
