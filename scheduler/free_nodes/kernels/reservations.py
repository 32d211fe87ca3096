"""Conservative backfilling: a reservation for every job that waits, on a profile of free nodes over time.

Row k of a profile has the number of free nodes from its time until that of the next row.
"""

from __future__ import annotations

import numpy as np

from scheduler.compiled import Floats, Floats2, Ints, compiled, inlined, part
from scheduler.free_nodes.kernels.queue_tree import ESTIMATE_S, JOB, SIZE
from scheduler.free_nodes.kernels.releases import END_S, RELEASED, ReleaseTable

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


@part
def cut(profile: Floats2, n: int, time_s: float) -> int:
    """Split the row at a time, not before the first row's; returns the number of rows."""
    x = n
    while profile[x - 1, TIME_S] > time_s:
        x -= 1
    if profile[x - 1, TIME_S] == time_s:
        return n
    for y in range(n, x, -1):
        profile[y, TIME_S], profile[y, FREE] = profile[y - 1, TIME_S], profile[y - 1, FREE]
    profile[x, TIME_S], profile[x, FREE] = time_s, profile[x - 1, FREE]
    return n + 1


@part
def add(profile: Floats2, n: int, start_s: float, end_s: float, nodes: float) -> int:
    """Add free nodes from start to end, or remove them if negative; returns the number of rows."""
    n = cut(profile, n, start_s)
    n = cut(profile, n, end_s)
    x = 0
    while profile[x, TIME_S] < start_s:
        x += 1
    while x < n and profile[x, TIME_S] < end_s:
        profile[x, FREE] += nodes
        x += 1
    return n


@part
def earliest_s(profile: Floats2, n: int, from_s: float, size: float, takes_s: float) -> float:
    """The earliest time from `from_s` on at which `size` nodes are free for `takes_s`; infinite = never."""
    start_s, x = from_s, 0
    while x < n:
        ends_s = profile[x + 1, TIME_S] if x + 1 < n else np.inf
        if ends_s > start_s:
            if profile[x, TIME_S] >= start_s + takes_s:
                return start_s
            if profile[x, FREE] < size:
                start_s = ends_s
        x += 1
    return start_s


@compiled
def carry_over(jobs: Floats2, jobs_before: Ints, starts_before_s: Floats, starts_s: Floats) -> None:
    """Copy earlier reservations; infinite for jobs without one. Both tables are in queue order."""
    y = 0
    for x in range(len(jobs)):
        starts_s[x] = np.inf
        for z in range(y, len(jobs_before)):
            if jobs_before[z] == jobs[x, JOB]:
                starts_s[x] = starts_before_s[z]
                y = z + 1
                break


@compiled
def plan(
    jobs: Floats2,
    by_start: Ints,
    starts_s: Floats,
    releases: ReleaseTable,
    n_running: int,
    n_free: int,
    now_s: float,
    profile: Floats2,
    started: Ints,
) -> int:
    """Update the reservations, and write the jobs that start now to `started`; returns their number.

    `starts_s` are the reservations so far, infinite for jobs without one; `by_start` are the jobs in this
    order. A reservation that cannot be kept moves to the earliest time after it.
    """
    n = free_over_time(releases, n_running, n_free, now_s, profile)
    for k in by_start:
        if starts_s[k] < np.inf:
            size, takes_s = jobs[k, SIZE], jobs[k, ESTIMATE_S]
            starts_s[k] = earliest_s(profile, n, max(starts_s[k], now_s), size, takes_s)
            n = add(profile, n, starts_s[k], starts_s[k] + takes_s, -size)
    for k in range(len(jobs)):
        size, takes_s = jobs[k, SIZE], jobs[k, ESTIMATE_S]
        if starts_s[k] < np.inf:
            if starts_s[k] == now_s:
                continue
            n = add(profile, n, starts_s[k], starts_s[k] + takes_s, size)
        starts_s[k] = earliest_s(profile, n, now_s, size, takes_s)
        n = add(profile, n, starts_s[k], starts_s[k] + takes_s, -size)
    n_started = 0
    for k in range(len(jobs)):
        if starts_s[k] == now_s:
            started[n_started] = k
            n_started += 1
    return n_started
