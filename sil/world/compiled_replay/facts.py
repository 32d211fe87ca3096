"""What the compiled loop records: facts of a trace, and decisions."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.compiled import Bytes, Floats, Ints, Ints2, inlined

ARRIVED, STARTED, ENDED, REFUSED = range(4)
"""Codes of events."""

N_FACTS, N_DECISIONS = range(2)
"""Places in `Facts.counts`."""

HELD_COLUMNS = 3


class Facts(NamedTuple):
    """A chunk of facts in order, and of decisions."""

    counts: Ints
    # by fact
    time_s: Floats
    event: Bytes
    job: Ints  # the place in the log
    run: Ints
    expected_s: Floats
    whole_cores: Ints  # of a job that starts on whole nodes of which others have parts; else 0
    held_end: Ints  # after the rows of what a job that starts holds, from place 1 on
    held: Ints2  # an interval of nodes, or a node with chunks and the bits of GPUs
    # by decision
    asked_s: Floats
    n_waiting: Ints
    n_started: Ints


@inlined
def note(f: Facts, time_s: float, event: int, job: int, run: int, expected_s: float) -> int:
    """Add a fact that holds nothing. Returns its place."""
    n = f.counts[N_FACTS]
    f.time_s[n], f.event[n], f.job[n], f.run[n], f.expected_s[n] = time_s, event, job, run, expected_s
    f.whole_cores[n], f.held_end[n + 1] = 0, f.held_end[n]
    f.counts[N_FACTS] = n + 1
    return int(n)
