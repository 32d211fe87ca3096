"""When nodes are believed to be given back: one row for each run, in order of its end, then of its run id."""

from __future__ import annotations

from scheduler.compiled import Floats2, compiled, direct, inlined

END_S, RELEASED, RUN = 0, 1, 2
"""Columns of a table of releases."""

Releases = Floats2


@inlined
def row_of(releases: Releases, n: int, end_s: float, run: float) -> int:
    """The first of the n rows that does not come before (end_s, run)."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if releases[middle, END_S] < end_s or (
            releases[middle, END_S] == end_s and releases[middle, RUN] < run
        ):
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def insert(releases: Releases, n: int, end_s: float, size: float, run: float) -> None:
    x = row_of(releases, n, end_s, run)
    for y in range(n, x, -1):
        for column in range(3):
            releases[y, column] = releases[y - 1, column]
    releases[x, END_S], releases[x, RELEASED], releases[x, RUN] = end_s, size, run


@inlined
def remove(releases: Releases, n: int, end_s: float, run: float) -> None:
    x = row_of(releases, n, end_s, run)
    for y in range(x, n - 1):
        for column in range(3):
            releases[y, column] = releases[y + 1, column]


@direct
@compiled
def add_release(releases: Releases, n: int, end_s: float, size: float, run: float) -> None:
    """One more beside the n rows; there is room for it."""
    insert(releases, n, end_s, size, run)


@direct
@compiled
def drop_release(releases: Releases, n: int, end_s: float, run: float) -> None:
    """Take one out of the n rows."""
    remove(releases, n, end_s, run)
