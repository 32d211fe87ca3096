"""How many nodes are free over time."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from scheduler.compiled import Floats, Ints, inlined, part
from scheduler.node_resources.kernels.releases import Releases


class Profile(NamedTuple):
    """Row k has the number of free nodes from its time until that of the next row."""

    n: Ints
    time_s: Annotated[Floats, "rows"]
    free: Annotated[Ints, "rows"]


@inlined
def begin(profile: Profile, now_s: float, n_free: int) -> None:
    profile.time_s[0], profile.free[0], profile.n[0] = now_s, n_free, 1


@inlined
def row_from(profile: Profile, time_s: float) -> int:
    """The last row, at a time that is not before its own; a new one if it is later."""
    n = profile.n[0]
    if time_s > profile.time_s[n - 1]:
        profile.time_s[n], profile.free[n] = time_s, profile.free[n - 1]
        profile.n[0] = n + 1
        return int(n)
    return int(n - 1)


@inlined
def expected_end_s(releases: Releases, x: int, now_s: float) -> float:
    """An overdue run is expected to end right after now."""
    return float(max(releases.end_s[x], np.nextafter(now_s, np.inf)))


@inlined
def beside_runs(profile: Profile, releases: Releases, n_free: int, now_s: float) -> None:
    """The profile if all runs end as expected and nothing starts."""
    begin(profile, now_s, n_free)
    for x in range(releases.n[0]):
        profile.free[row_from(profile, expected_end_s(releases, x, now_s))] += releases.released[x]


@inlined
def row_at(profile: Profile, time_s: float) -> int:
    """The row of a time, not before the first row's."""
    low, high = 0, profile.n[0]
    while high - low > 1:
        middle = (low + high) >> 1
        if profile.time_s[middle] <= time_s:
            low = middle
        else:
            high = middle
    return int(low)


@part
def cut(profile: Profile, time_s: float) -> None:
    """Split the row at a time, not before the first row's."""
    x, n = row_at(profile, time_s), profile.n[0]
    if profile.time_s[x] != time_s:
        for y in range(n, x + 1, -1):
            profile.time_s[y], profile.free[y] = profile.time_s[y - 1], profile.free[y - 1]
        profile.time_s[x + 1] = time_s  # as many are free as in row x
        profile.free[x + 1] = profile.free[x]
        profile.n[0] = n + 1


@part
def add(profile: Profile, start_s: float, end_s: float, nodes: int) -> None:
    """Add free nodes from start to end, or remove them if negative."""
    cut(profile, start_s)
    cut(profile, end_s)
    x, n = row_at(profile, start_s), profile.n[0]
    while x < n and profile.time_s[x] < end_s:
        profile.free[x] += nodes
        x += 1


@part
def earliest_s(profile: Profile, from_s: float, size: int, takes_s: float, own_s: float) -> float:
    """The earliest time from `from_s` on at which `size` nodes are free for `takes_s`; infinite = never.

    From `own_s` on, as many have been reserved for that long, which may be given up; infinite = none.
    """
    start_s, n = from_s, profile.n[0]
    for x in range(row_at(profile, from_s), n):
        time_s = profile.time_s[x]
        if time_s >= own_s or time_s >= start_s + takes_s:
            return start_s
        if profile.free[x] < size:
            start_s = min(profile.time_s[x + 1] if x + 1 < n else np.inf, own_s)
    return start_s


@part
def copy(profile: Profile, to: Profile, now_s: float) -> None:
    """Copy the part of a profile from now on, which is not before its first row, without rows that change
    nothing."""
    first = row_at(profile, now_s)
    begin(to, now_s, profile.free[first])
    m = 1
    for x in range(first + 1, profile.n[0]):
        if profile.free[x] != to.free[m - 1]:
            to.time_s[m], to.free[m] = profile.time_s[x], profile.free[x]
            m += 1
    to.n[0] = m


@part
def is_nowhere_freer(profile: Profile, last: Profile) -> bool:
    """Whether at no time more nodes are free than in an earlier profile."""
    n, n_last, y = profile.n[0], last.n[0], row_at(last, profile.time_s[0])
    for x in range(n):
        ends_s = profile.time_s[x + 1] if x + 1 < n else np.inf
        if profile.free[x] > last.free[y]:
            return False
        while y + 1 < n_last and last.time_s[y + 1] <= ends_s:
            y += 1
            if last.time_s[y] < ends_s and profile.free[x] > last.free[y]:
                return False
    return True


@part
def goes_on_as(profile: Profile, last: Profile) -> bool:
    """Whether an earlier profile is this one from now on. In both, all rows but the first are those in which
    a run ends."""
    n, first = profile.n[0], row_at(last, profile.time_s[0])
    if last.n[0] - first != n or profile.free[0] != last.free[first]:
        return False
    for x in range(1, n):
        if profile.time_s[x] != last.time_s[first + x] or profile.free[x] != last.free[first + x]:
            return False
    return True


@part
def find_peaks(profile: Profile, peaks: Profile) -> None:
    """Write the rows in which more nodes are free than in all before. No job can begin before the first one
    that has as many as it requests, even after more of them are reserved."""
    begin(peaks, profile.time_s[0], profile.free[0])
    m = 1
    for x in range(1, profile.n[0]):
        if profile.free[x] > peaks.free[m - 1]:
            peaks.time_s[m], peaks.free[m] = profile.time_s[x], profile.free[x]
            m += 1
    peaks.n[0] = m
