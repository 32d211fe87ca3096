"""Conservative backfilling: a reservation for every job that waits, on a profile of free nodes over time.

Row k of a profile has the number of free nodes from its time until that of the next row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import Floats, Floats2, Ints, compiled, inlined, part
from scheduler.free_nodes.kernels.queue_tree import ESTIMATE_S, JOB, N_JOBS, SIZE, Tree
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


class Reservations(NamedTuple):
    """What one pass hands on to the next, and its work space, for n waiting jobs and r runs."""

    n: Ints  # (1,): how many there are
    jobs: Ints  # (n,) in queue order
    start_s: Floats  # (n,)
    waiting: Floats2  # (n, 4)
    new_start_s: Floats  # (n,)
    by_start: Ints  # (n,)
    scratch: Ints  # (n,)
    started: Ints  # (n,)
    profile: Floats2  # (4 n + r + 3, 2)


@part
def waiting_in(tree: Tree, n_places: int, waiting: Floats2) -> int:
    """Write a row of a leaf's columns for each job in the queue, with its place instead of N_JOBS. Returns
    their number."""
    capacity, n = len(tree) // 2, 0
    for place in range(n_places):
        k = capacity + place
        if tree[k, N_JOBS] > 0:
            waiting[n, N_JOBS], waiting[n, SIZE] = place, tree[k, SIZE]
            waiting[n, ESTIMATE_S], waiting[n, JOB] = tree[k, ESTIMATE_S], tree[k, JOB]
            n += 1
    return n


@part
def sort_stable(keys: Floats, order: Ints, scratch: Ints) -> None:
    """Make `order` the places of keys in ascending order; ties stay in their order. Merge sort."""
    n, width = len(keys), 1
    for x in range(n):
        order[x] = x
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            left, right = low, middle
            for x in range(low, high):
                if right >= high or (left < middle and keys[order[left]] <= keys[order[right]]):
                    scratch[x] = order[left]
                    left += 1
                else:
                    scratch[x] = order[right]
                    right += 1
        for x in range(n):
            order[x] = scratch[x]
        width *= 2


@part
def reserve(
    r: Reservations,
    tree: Tree,
    n_places: int,
    releases: ReleaseTable,
    n_running: int,
    n_free: int,
    now_s: float,
) -> int:
    """One pass over a queue, in which new reservations replace the last ones. Returns how many jobs start:
    `started` are their rows of `waiting`, in order. JOB must be different for all jobs that wait."""
    n, before = waiting_in(tree, n_places, r.waiting), r.n[0]
    waiting, start_s, by_start = r.waiting[:n], r.new_start_s[:n], r.by_start[:n]
    carry_over(waiting, r.jobs[:before], r.start_s[:before], start_s)
    sort_stable(start_s, by_start, r.scratch)
    n_started = plan(waiting, by_start, start_s, releases, n_running, n_free, now_s, r.profile, r.started)
    left = 0
    for x in range(n):
        if start_s[x] != now_s:
            r.jobs[left], r.start_s[left] = int(waiting[x, JOB]), start_s[x]
            left += 1
    r.n[0] = left
    return n_started


@part
def first_reserved_s(r: Reservations) -> float:
    """The start of the first reservation; infinite if there is none."""
    first_s = np.inf
    for x in range(r.n[0]):
        first_s = min(first_s, r.start_s[x])
    return first_s
