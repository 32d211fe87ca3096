"""Numbers and intervals of numbers in the texts of facts."""

from __future__ import annotations

from scheduler.compiled import FixedBytes, inlined

SPACE, COMMA, MINUS, COLON, AT_SIGN, TAB = map(ord, " ,-:@\t")
_ZERO, _NINE = map(ord, "09")


@inlined
def number_at(texts: FixedBytes, at: int, end: int, most: int) -> tuple[int, int]:
    """The number that begins there, and where it ends; -1 if there is none from 0 to `most`."""
    number, begins = 0, at
    while at < end and _ZERO <= texts[at] <= _NINE and number <= most:
        number = number * 10 + (int(texts[at]) - _ZERO)
        at += 1
    if at == begins or number > most:
        number = -1
    return number, at


@inlined
def interval_at(texts: FixedBytes, at: int, end: int, most: int) -> tuple[int, int, int]:
    """The numbers `first` to `last` of the interval that begins there, and where the next one begins;
    `first` is -1 if it is none."""
    first, at = number_at(texts, at, end, most)
    last = first
    if first >= 0 and at < end and texts[at] == MINUS:
        last, at = number_at(texts, at + 1, end, most)
    if last < first or (at < end and texts[at] != SPACE):
        first = -1
    return first, last, at + 1
