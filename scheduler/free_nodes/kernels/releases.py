"""Expected releases of nodes: one row for each run, by expected end, then run id."""

from __future__ import annotations

import numpy as np

from scheduler.compiled import Floats, Floats2, compiled, direct, inlined
from scheduler.model import RunId

END_S, RELEASED, RUN, SLOT = 0, 1, 2, 3
"""Columns of a table of releases. SLOT is for the caller."""

N_COLUMNS = 4

ReleaseTable = Floats2

FEWEST_ROWS = 64


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


@direct
@compiled
def add_release(releases: ReleaseTable, n: int, end_s: float, size: float, run: float) -> None:
    """Add to the n rows; there must be room."""
    insert(releases, n, end_s, size, run, 0)


@direct
@compiled
def drop_release(releases: ReleaseTable, n: int, end_s: float, run: float) -> None:
    """Remove one of the n rows."""
    remove(releases, n, end_s, run)


class Releases:
    """In order of time, then run id. Adding or removing one costs a binary search and a shift of the rest."""

    __slots__ = ("capacity", "n", "table")

    def __init__(self) -> None:
        self.table: ReleaseTable = np.zeros((FEWEST_ROWS, N_COLUMNS))
        """For the kernels: the first `n` rows."""
        self.n = 0
        self.capacity = FEWEST_ROWS

    @property
    def ends_s(self) -> Floats:
        """(n,) in ascending order."""
        return self.table[: self.n, END_S].copy()

    @property
    def sizes(self) -> Floats:
        """(n,) number of nodes released at each of these times."""
        return self.table[: self.n, RELEASED].copy()

    def first_s(self) -> float | None:
        """The time of the first release."""
        return self.table.item(END_S) if self.n else None

    @property
    def first_run(self) -> RunId:
        """The run with the first release; there must be one."""
        return RunId(int(self.table[0, RUN]))

    def add(self, end_s: float, n_nodes: int, run: RunId) -> None:
        if self.n == self.capacity:
            self.make_room(1)
        add_release(self.table, self.n, end_s, n_nodes, run)
        self.n += 1

    def drop(self, end_s: float, run: RunId) -> None:
        """Remove the release of a run, given the time at which it was added."""
        drop_release(self.table, self.n, end_s, run)
        self.n -= 1

    def make_room(self, more: int) -> None:
        """Make room for `more` releases."""
        self.capacity = max(self.capacity, 2 * (self.n + more))
        larger = np.zeros((self.capacity, N_COLUMNS))
        larger[: self.n] = self.table[: self.n]
        self.table = larger
