"""The loop for policies in Python: it returns whenever one has to choose a job, and goes on with the answer.

Many replays on identical nodes go on together, each with its own clock and queue.
"""

from __future__ import annotations

import numpy as np

from scheduler.compiled import Floats, Ints, Ints2, long_running, part, record_of
from scheduler.free_nodes.kernels import rigid_queue as rigid_queue  # implements the transitions
from scheduler.free_nodes.kernels.observation import (
    Views,
    begin_pass,
    choose,
    chosen_row,
    end_pass,
    observe,
    write_nothing,
)
from scheduler.free_nodes.kernels.queues import N_WAITING, WANTS_ROUND, RigidQueue
from sil.world.compiled_replay import intervals as intervals  # implements what the loop writes
from sil.world.compiled_replay.facts import N_DECISIONS, N_FACTS, Facts
from sil.world.compiled_replay.loop import (
    ALL_ENDED,
    CHUNK,
    NOW_S,
    PAUSE,
    ROUND,
    ROUND_IS_DUE,
    ROUND_S,
    STUCK,
    Site,
    carry_out,
    happens,
    next_event,
    note_what_is_due,
    what_ends,
)

GOES_ON, ASKS = PAUSE, 7
"""States of a replay, besides those in which the loop returns: it is to go on; the policy is to choose."""

NO_ANSWER = -1
NO_JOB = -1

SITE, QUEUE, FACTS = range(3)
"""Columns of a table of handles: those of the records of a replay."""

site_at, queue_at, facts_at = record_of(Site), record_of(RigidQueue), record_of(Facts)


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
        kind = next_event(site, site.rank)
        now_s = site.times_s[NOW_S]
        if now_s == np.inf:
            return STUCK
        if kind == ROUND:
            site.times_s[ROUND_S], site.counts[ROUND_IS_DUE] = np.inf, 0
            q.counts[WANTS_ROUND] = 0
            if q.counts[N_WAITING] > 0:
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
    now_s = site.times_s[NOW_S]
    if row < v.mask.shape[1] - 1:
        choose(q, v, at, row, now_s)
        if observe(q, v, at, now_s) > 0:
            return ASKS
    carry_out(site, q, f, now_s, end_pass(q, v, at, now_s))
    note_what_is_due(site, q, now_s)
    return go_on(site, q, f, v, at)


@long_running
def answer_all(handles: Ints2, v: Views, actions: Ints, states: Ints, jobs: Ints, now_s: Floats) -> None:
    """Replays that ask go on with their actions (see `chosen_row`), as do those that were interrupted. Sets
    the state of each; the job that its action started, or NO_JOB; its time; and no further action. The facts
    are those since the last action."""
    for at in range(len(states)):
        action, state = actions[at], states[at]
        actions[at] = NO_ANSWER
        if state in (ALL_ENDED, STUCK) or (state == ASKS and action == NO_ANSWER):
            continue
        site, q, f = site_at(handles[at, SITE]), queue_at(handles[at, QUEUE]), facts_at(handles[at, FACTS])
        if state == ASKS:
            f.counts[N_FACTS], f.counts[N_DECISIONS] = 0, 0
            row = chosen_row(v, at, action)
            is_job = row < v.mask.shape[1] - 1
            jobs[at] = q.job[q.slot[v.places[at, row]]] if is_job else NO_JOB
            states[at] = answered(site, q, f, v, at, row)
        else:
            states[at] = go_on(site, q, f, v, at)
        now_s[at] = site.times_s[NOW_S]
