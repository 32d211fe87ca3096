"""Expected releases of nodes: one row for each run, by expected end, then run id."""

from __future__ import annotations

from scheduler.compiled import Floats2, inlined

END_S, RELEASED, RUN, SLOT = 0, 1, 2, 3
"""Columns of a table of releases. SLOT is for the caller."""

N_COLUMNS = 4

ReleaseTable = Floats2


@inlined
def row_of(releases: ReleaseTable, n: int, end_s: float, run: float) -> int:
    """The first of the n rows that does not come before (end_s, run)."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if (releases[middle, END_S], releases[middle, RUN]) < (end_s, run):
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def insert(releases: ReleaseTable, n: int, end_s: float, size: float, run: float, slot: int) -> None:
    x = row_of(releases, n, end_s, run)
    for y in range(n, x, -1):
        for column in range(N_COLUMNS):
            releases[y, column] = releases[y - 1, column]
    releases[x, END_S], releases[x, RELEASED], releases[x, RUN], releases[x, SLOT] = end_s, size, run, slot


@inlined
def remove(releases: ReleaseTable, n: int, end_s: float, run: float) -> None:
    x = row_of(releases, n, end_s, run)
    for y in range(x, n - 1):
        for column in range(N_COLUMNS):
            releases[y, column] = releases[y + 1, column]
