"""Expected releases of nodes, and how many nodes are free over time.

A table of releases has one row for each run, by expected end, then run id. Row k of a profile has the number
of free nodes from its time until that of the next row.
"""

from __future__ import annotations

import numpy as np

from scheduler.compiled import Floats2, inlined, part

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


TIME_S, FREE = 0, 1
"""Columns of a profile."""


@inlined
def free_over_time(
    releases: ReleaseTable, n_running: int, n_free: int, now_s: float, profile: Floats2
) -> int:
    """The profile if all runs end as expected and nothing starts; returns the number of rows.

    An overdue run is expected to end right after now.
    """
    profile[0, TIME_S], profile[0, FREE] = now_s, n_free
    n = 1
    for x in range(n_running):
        end_s = max(releases[x, END_S], np.nextafter(now_s, np.inf))
        if end_s > profile[n - 1, TIME_S]:
            profile[n, TIME_S], profile[n, FREE] = end_s, profile[n - 1, FREE]
            n += 1
        profile[n - 1, FREE] += releases[x, RELEASED]
    return n


@inlined
def row_at(profile: Floats2, n: int, time_s: float) -> int:
    """The row of a time, not before the first row's."""
    low, high = 0, n
    while high - low > 1:
        middle = (low + high) >> 1
        if profile[middle, TIME_S] <= time_s:
            low = middle
        else:
            high = middle
    return low


@part
def cut(profile: Floats2, n: int, time_s: float) -> int:
    """Split the row at a time, not before the first row's; returns the number of rows."""
    x = row_at(profile, n, time_s)
    if profile[x, TIME_S] == time_s:
        return n
    for y in range(n, x + 1, -1):
        profile[y, TIME_S], profile[y, FREE] = profile[y - 1, TIME_S], profile[y - 1, FREE]
    profile[x + 1, TIME_S] = time_s  # as many are free as in row x
    profile[x + 1, FREE] = profile[x, FREE]
    return n + 1


@part
def add(profile: Floats2, n: int, start_s: float, end_s: float, nodes: float) -> int:
    """Add free nodes from start to end, or remove them if negative; returns the number of rows."""
    n = cut(profile, n, start_s)
    n = cut(profile, n, end_s)
    x = row_at(profile, n, start_s)
    while x < n and profile[x, TIME_S] < end_s:
        profile[x, FREE] += nodes
        x += 1
    return n


@part
def earliest_s(profile: Floats2, n: int, from_s: float, size: float, takes_s: float, own_s: float) -> float:
    """The earliest time from `from_s` on at which `size` nodes are free for `takes_s`; infinite = never.

    From `own_s` on, as many have been reserved for that long, which may be given up; infinite = none.
    """
    start_s = from_s
    for x in range(row_at(profile, n, from_s), n):
        time_s = profile[x, TIME_S]
        if time_s >= own_s or time_s >= start_s + takes_s:
            return start_s
        if profile[x, FREE] < size:
            start_s = min(profile[x + 1, TIME_S] if x + 1 < n else np.inf, own_s)
    return start_s


@part
def copied(profile: Floats2, n: int, to: Floats2, now_s: float) -> int:
    """Copy the part of a profile from now on, which is not before its first row, without rows that change
    nothing; returns the number of rows."""
    first = row_at(profile, n, now_s)
    to[0, TIME_S], to[0, FREE], m = now_s, profile[first, FREE], 1
    for x in range(first + 1, n):
        if profile[x, FREE] != to[m - 1, FREE]:
            to[m, TIME_S], to[m, FREE] = profile[x, TIME_S], profile[x, FREE]
            m += 1
    return m


@part
def is_nowhere_freer(profile: Floats2, n: int, last: Floats2, n_last: int) -> bool:
    """Whether at no time more nodes are free than in an earlier profile."""
    y = row_at(last, n_last, profile[0, TIME_S])
    for x in range(n):
        ends_s = profile[x + 1, TIME_S] if x + 1 < n else np.inf
        if profile[x, FREE] > last[y, FREE]:
            return False
        while y + 1 < n_last and last[y + 1, TIME_S] <= ends_s:
            y += 1
            if last[y, TIME_S] < ends_s and profile[x, FREE] > last[y, FREE]:
                return False
    return True


@part
def find_peaks(profile: Floats2, n: int, peaks: Floats2) -> int:
    """Write the rows in which more nodes are free than in all before; returns their number. No job can begin
    before the first one that has as many as it requests, even after more of them are reserved."""
    n_peaks = 0
    for x in range(n):
        if n_peaks == 0 or profile[x, FREE] > peaks[n_peaks - 1, FREE]:
            peaks[n_peaks, TIME_S], peaks[n_peaks, FREE] = profile[x, TIME_S], profile[x, FREE]
            n_peaks += 1
    return n_peaks
