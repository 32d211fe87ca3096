"""What the compiled loop records: facts of a trace, and decisions."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.compiled import Bytes, Floats, Ints, inlined, part

ARRIVED, STARTED, ENDED, REFUSED = range(4)
"""Codes of events."""

N_FACTS, N_DECISIONS = range(2)
"""Places in `Facts.counts`."""

MOST_DIGITS = 22
"""Bytes of an interval: two nodes, a dash and a space."""

TAB, SPACE, COMMA, DASH, COLON, AT_SIGN = b"\t ,-:@"


class Facts(NamedTuple):
    """A chunk of facts in order, and of decisions."""

    counts: Ints
    # by fact
    time_s: Floats
    event: Bytes
    job: Ints  # the place in the log
    run: Ints
    expected_s: Floats
    text_end: Ints  # after the text of what a job that starts uses, from place 1 on
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


@inlined
def write_byte(text: Bytes, at: int, byte: int) -> int:
    """Returns the place after it."""
    text[at] = byte
    return at + 1


@part
def write_interval(text: Bytes, at: int, is_first: bool, first: int, last: int) -> int:
    """Nodes as in `0-3 5`. Returns the place after them."""
    if not is_first:
        at = write_byte(text, at, SPACE)
    at = write_number(text, at, first)
    if first != last:
        at = write_number(text, write_byte(text, at, DASH), last)
    return at


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
