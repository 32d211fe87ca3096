"""Rows of tables that are not in use, and the expected releases of nodes."""

from __future__ import annotations

from typing import Annotated, NamedTuple, Protocol

from scheduler.compiled import Floats, Ints, inlined, part


class Rows(Protocol):
    """A table of which rows are in use, were given back, or never were in use."""

    @property
    def spare(self) -> Ints:
        """The rows that were given back, the last one last."""

    @property
    def n_spare(self) -> Ints: ...
    @property
    def n_used(self) -> Ints:
        """The number of rows that are or were in use."""


@inlined
def n_left(table: Rows) -> int:
    """How many rows are not in use."""
    return int(len(table.spare) - table.n_used[0] + table.n_spare[0])


@inlined
def next_row(table: Rows) -> int:
    """Use a row; there must be one left."""
    if table.n_spare[0] > 0:
        table.n_spare[0] -= 1
        return int(table.spare[table.n_spare[0]])
    table.n_used[0] += 1
    return int(table.n_used[0] - 1)


@inlined
def give_row_back(table: Rows, row: int) -> None:
    table.spare[table.n_spare[0]] = row
    table.n_spare[0] += 1


class Releases(NamedTuple):
    """When runs are expected to end, in order of time, then run."""

    n: Ints
    end_s: Annotated[Floats, "slots"]
    released: Annotated[Ints, "slots"]
    """How many nodes; on nodes of which jobs use parts, the first row of what the run holds."""
    run: Annotated[Ints, "slots"]
    slot: Annotated[Ints, "slots"]
    """That of its job."""


AFTER_ALL = 2**62
"""In place of a run: it is the last of those that end at the same time."""


@inlined
def row_of(releases: Releases, end_s: float, run: int) -> int:
    """The first row that does not come before (end_s, run)."""
    low, high = 0, releases.n[0]
    while low < high:
        middle = (low + high) // 2
        if (releases.end_s[middle], releases.run[middle]) < (end_s, run):
            low = middle + 1
        else:
            high = middle
    return int(low)


@part
def insert(releases: Releases, end_s: float, released: int, run: int, slot: int) -> None:
    x, n = row_of(releases, end_s, run), releases.n[0]
    for y in range(n, x, -1):
        releases.end_s[y], releases.released[y] = releases.end_s[y - 1], releases.released[y - 1]
        releases.run[y], releases.slot[y] = releases.run[y - 1], releases.slot[y - 1]
    releases.end_s[x], releases.released[x] = end_s, released
    releases.run[x], releases.slot[x] = run, slot
    releases.n[0] = n + 1


@part
def remove(releases: Releases, end_s: float, run: int) -> None:
    n = releases.n[0] - 1
    for y in range(row_of(releases, end_s, run), n):
        releases.end_s[y], releases.released[y] = releases.end_s[y + 1], releases.released[y + 1]
        releases.run[y], releases.slot[y] = releases.run[y + 1], releases.slot[y + 1]
    releases.n[0] = n
