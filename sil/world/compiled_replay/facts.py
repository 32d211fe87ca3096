"""What the compiled loop records: facts of a trace, and decisions."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.compiled import Bytes, Floats, Ints, Ints2, inlined, part
from scheduler.free_nodes.kernels.free_set import FIRST, LAST

ARRIVED, STARTED, ENDED = range(3)
"""Codes of events."""

N_FACTS, N_DECISIONS = range(2)
"""Places in `Facts.counts`."""

MOST_DIGITS = 22
"""Bytes of an interval: two nodes, a dash and a space."""


class Facts(NamedTuple):
    """A chunk of facts in order, and of decisions."""

    counts: Ints
    # by fact
    time_s: Floats
    event: Bytes
    job: Ints  # the place in the log
    run: Ints
    expected_s: Floats
    text_end: Ints  # after the text of the fact's nodes, from place 1 on
    text: Bytes
    # by decision
    asked_s: Floats
    n_waiting: Ints
    n_started: Ints


@inlined
def note(f: Facts, time_s: float, event: int, job: int, run: int, expected_s: float) -> int:
    """Add a fact without a text. Returns its place."""
    n = f.counts[N_FACTS]
    f.time_s[n], f.event[n], f.job[n], f.run[n], f.expected_s[n] = time_s, event, job, run, expected_s
    f.text_end[n + 1] = f.text_end[n]
    f.counts[N_FACTS] = n + 1
    return int(n)


@part
def write_nodes(f: Facts, fact: int, intervals: Ints2, first: int, n: int) -> None:
    """The nodes of n intervals as the text of the newest fact: `0-3 5`."""
    at = f.text_end[fact]
    for x in range(first, first + n):
        if x > first:
            f.text[at] = 32  # a space
            at += 1
        at = write_number(f.text, at, intervals[x, FIRST])
        if intervals[x, LAST] != intervals[x, FIRST]:
            f.text[at] = 45  # a dash
            at = write_number(f.text, at + 1, intervals[x, LAST])
    f.text_end[fact + 1] = at


@part
def write_number(text: Bytes, at: int, number: int) -> int:
    """Write digits. Returns the place after them."""
    n_digits, rest = 1, number
    while rest >= 10:
        rest //= 10
        n_digits += 1
    for x in range(at + n_digits - 1, at - 1, -1):
        text[x] = 48 + number % 10
        number //= 10
    return at + n_digits
