"""The loop for policies in Python: it returns whenever one has to choose a job, and goes on with the answer.

Many replays on identical nodes go on together, each with its own clock and queue.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import Flags, Floats, Ints, Ints2, called_by_handle, inlined, part, record_of
from scheduler.free_nodes.kernels.identical import RigidQueue
from sil.world.compiled_replay import rigid as rigid  # implements what the loop writes
from sil.world.compiled_replay.facts import N_DECISIONS, N_FACTS, Facts
from sil.world.compiled_replay.loop import (
    ALL_ENDED,
    CHUNK,
    PAUSE,
    ROUND,
    STUCK,
    Site,
    carry_out,
    happens,
    next_event,
    note_what_is_due,
    what_ends,
)
from sil.world.compiled_replay.observation import (
    Views,
    begin_pass,
    choose,
    chosen_row,
    end_pass,
    observe,
    write_nothing,
)

GOES_ON, ASKS = PAUSE, 7
"""States of a replay, besides those in which the loop returns: it is to go on; the policy is to choose."""

NO_ANSWER = -1
NO_JOB = -1

SITE, QUEUE, FACTS = range(3)
"""Columns of a table of handles: those of the records of a replay."""

site_at, queue_at, facts_at = record_of(Site), record_of(RigidQueue), record_of(Facts)


class Answers(NamedTuple):
    """By replay: what the policy is asked and answers, and what comes of it."""

    handles: Ints2
    state: Ints
    action: Ints  # for observation.chosen_row; NO_ANSWER is no action
    is_excluded: Flags  # by the mask, as what follows of the last action
    asked_s: Floats
    job: Ints  # that it started, or NO_JOB, as what follows
    wait_s: Floats  # 0 without a job
    run_s: Floats
    size: Ints
    now_s: Floats


@part
def go_on(site: Site, q: RigidQueue, f: Facts, v: Views, at: int) -> int:
    """Until a job in the window fits when a round is due, all jobs have ended, or an array is too small.
    Returns the state."""
    while True:
        why = what_ends(site, q, f)
        if why == ALL_ENDED:
            write_nothing(v, at)
        if why != CHUNK:
            return why
        kind = next_event(site)
        now_s = site.clock.now_s[0]
        if now_s == np.inf:
            return STUCK
        if kind == ROUND:
            site.clock.round_s[0], site.clock.round_is_due[0] = np.inf, 0
            q.ledger.wants_round[0] = 0
            if q.ledger.n_waiting[0] > 0:
                begin_pass(q, v, at)
                if observe(q, v, at, now_s) > 0:
                    return ASKS
                carry_out(site, q, f, now_s, 0)
        else:
            happens(site, q, f, kind, now_s)
        note_what_is_due(site, q, now_s)


@part
def answered(site: Site, q: RigidQueue, f: Facts, v: Views, at: int, row: int) -> int:
    """The job in a row starts, or none any more in this pass. Returns the state."""
    now_s = site.clock.now_s[0]
    if row < v.mask.shape[1] - 1:
        choose(q, v, at, row, now_s)
        if observe(q, v, at, now_s) > 0:
            return ASKS
    carry_out(site, q, f, now_s, end_pass(q, now_s))
    note_what_is_due(site, q, now_s)
    return go_on(site, q, f, v, at)


@inlined
def note_answer(site: Site, q: RigidQueue, v: Views, a: Answers, at: int) -> int:
    """Returns the row of the job that the action starts; see `chosen_row`."""
    window, action = v.mask.shape[1] - 1, a.action[at]
    a.is_excluded[at] = not (0 <= action <= window and v.mask[at, action])
    a.asked_s[at] = site.clock.now_s[0]
    a.job[at], a.wait_s[at], a.run_s[at], a.size[at] = NO_JOB, 0.0, 0.0, 0
    row = chosen_row(v, at, action)
    if row < window:
        slot = q.slot[v.places[at, row]]
        job = q.ledger.job[slot]
        a.job[at], a.wait_s[at] = job, a.asked_s[at] - q.ledger.began_s[slot]
        a.run_s[at], a.size[at] = site.jobs.run_s[job], site.jobs.size[job]
    return row


@called_by_handle
def answer_all(a: Answers, v: Views) -> bool:
    """Replays that ask go on with their actions, as do those that were interrupted; the facts are those since
    the last action. Returns whether some are interrupted again."""
    are_interrupted = False
    for at in range(len(a.state)):
        state, has_answer = a.state[at], a.action[at] != NO_ANSWER
        if state in (ALL_ENDED, STUCK) or (state == ASKS and not has_answer):
            continue
        site = site_at(a.handles[at, SITE])
        q, f = queue_at(a.handles[at, QUEUE]), facts_at(a.handles[at, FACTS])
        if state == ASKS:
            f.counts[N_FACTS], f.counts[N_DECISIONS] = 0, 0
            state = answered(site, q, f, v, at, note_answer(site, q, v, a, at))
        else:
            state = go_on(site, q, f, v, at)
        a.state[at], a.action[at], a.now_s[at] = state, NO_ANSWER, site.clock.now_s[0]
        are_interrupted |= state != ASKS and state != ALL_ENDED
    return are_interrupted
