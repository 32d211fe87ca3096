"""Conservative backfilling: a reservation for every job that waits, on a profile of free nodes over time.

Row k of a profile has the number of free nodes from its time until that of the next row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import Floats, Floats2, Ints, inlined, part
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
            start_s = profile[x + 1, TIME_S] if x + 1 < n else np.inf
    return start_s


@part
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


N_RESERVED, N_ROWS, IS_SETTLED = range(3)
"""Places in `Reservations.n`: the number of reservations, that of rows of the last profile, and whether each
reservation was the earliest possible one beside the others."""


class Reservations(NamedTuple):
    """What one pass hands on to the next, and its work space, for n waiting jobs and r runs."""

    n: Ints  # (3,): N_RESERVED, N_ROWS, IS_SETTLED
    jobs: Ints  # (n,) in queue order
    start_s: Floats  # (n,)
    waiting: Floats2  # (n, 4)
    new_start_s: Floats  # (n,)
    by_start: Ints  # (n,)
    scratch: Ints  # (n,)
    end_s: Floats  # (n,)
    by_end: Ints  # (n,)
    started: Ints  # (n,)
    profile: Floats2  # (4 n + r + 3, 2)
    peaks: Floats2  # (4 n + r + 3, 2): see `find_peaks`
    last_profile: Floats2  # (4 n + r + 3, 2): with all reservations, after the last pass


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
    """Make `order` the places of keys in ascending order; ties stay in their order. Merge sort of blocks that
    are sorted by insertion, since keys are nearly in order."""
    n, width = len(keys), 16
    for x in range(n):
        y = x
        while y % width != 0 and keys[order[y - 1]] > keys[x]:
            order[y] = order[y - 1]
            y -= 1
        order[y] = x
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
def keep_all(
    r: Reservations, n: int, releases: ReleaseTable, n_running: int, n_free: int, now_s: float
) -> int:
    """The profile if all reservations are kept, of which overdue ones begin now; returns the number of rows,
    or 0 if too few nodes are free for them."""
    start_s, by_start, profile, n_kept = r.new_start_s, r.by_start, r.profile, 0
    while n_kept < n and start_s[by_start[n_kept]] < np.inf:
        k = by_start[n_kept]
        r.end_s[n_kept] = max(start_s[k], now_s) + r.waiting[k, ESTIMATE_S]
        n_kept += 1
    sort_stable(r.end_s[:n_kept], r.by_end[:n_kept], r.scratch)
    profile[0, TIME_S], profile[0, FREE] = now_s, n_free
    n_rows, x, y, z = 1, 0, 0, 0
    while x < n_running or z < n_kept:  # each reservation begins before it ends
        released_s = max(releases[x, END_S], np.nextafter(now_s, np.inf)) if x < n_running else np.inf
        begins_s = max(start_s[by_start[y]], now_s) if y < n_kept else np.inf
        ends_s = r.end_s[r.by_end[z]] if z < n_kept else np.inf
        time_s = min(released_s, begins_s, ends_s)
        if time_s > profile[n_rows - 1, TIME_S]:
            if profile[n_rows - 1, FREE] < 0:
                return 0
            profile[n_rows, TIME_S], profile[n_rows, FREE] = time_s, profile[n_rows - 1, FREE]
            n_rows += 1
        if begins_s == time_s:
            profile[n_rows - 1, FREE] -= r.waiting[by_start[y], SIZE]
            y += 1
        elif ends_s == time_s:
            profile[n_rows - 1, FREE] += r.waiting[by_start[r.by_end[z]], SIZE]
            z += 1
        else:
            profile[n_rows - 1, FREE] += releases[x, RELEASED]
            x += 1
    if profile[n_rows - 1, FREE] < 0:
        return 0
    for y in range(n_kept):
        start_s[by_start[y]] = max(start_s[by_start[y]], now_s)
    return n_rows


@part
def keep_or_move(
    r: Reservations, n: int, releases: ReleaseTable, n_running: int, n_free: int, now_s: float
) -> int:
    """The profile if reservations that cannot be kept move to the earliest time after theirs; returns the
    number of rows."""
    n_rows = free_over_time(releases, n_running, n_free, now_s, r.profile)
    for x in range(n):
        k = r.by_start[x]
        if r.new_start_s[k] < np.inf:
            size, takes_s, from_s = r.waiting[k, SIZE], r.waiting[k, ESTIMATE_S], max(r.new_start_s[k], now_s)
            start_s = earliest_s(r.profile, n_rows, from_s, size, takes_s, np.inf)
            n_rows = add(r.profile, n_rows, start_s, start_s + takes_s, -size)
            r.new_start_s[k] = start_s
    return n_rows


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
    n, before, profile = waiting_in(tree, n_places, r.waiting), r.n[N_RESERVED], r.profile
    start_s = r.new_start_s
    carry_over(r.waiting[:n], r.jobs[:before], r.start_s[:before], start_s)
    sort_stable(start_s[:n], r.by_start[:n], r.scratch)
    n_rows = keep_all(r, n, releases, n_running, n_free, now_s)
    # Where all are kept, each is still the earliest possible one, unless more nodes are free at some time.
    all_stay = (
        n_rows > 0 and r.n[IS_SETTLED] == 1 and is_nowhere_freer(profile, n_rows, r.last_profile, r.n[N_ROWS])
    )
    if n_rows == 0:
        n_rows = keep_or_move(r, n, releases, n_running, n_free, now_s)
    is_settled = True
    n_peaks = find_peaks(profile, n_rows, r.peaks)
    n_started, n_left = 0, 0
    for k in range(n):
        size, takes_s, before_s = r.waiting[k, SIZE], r.waiting[k, ESTIMATE_S], start_s[k]
        from_s = np.inf
        if before_s == np.inf or not all_stay:
            x = 0
            while x < n_peaks and r.peaks[x, FREE] < size:
                x += 1
            from_s = r.peaks[x, TIME_S] if x < n_peaks else np.inf
        if from_s < before_s:
            start_s[k] = earliest_s(profile, n_rows, from_s, size, takes_s, before_s)
        if start_s[k] < before_s:
            if before_s < np.inf:
                is_settled = False
                n_rows = add(profile, n_rows, before_s, before_s + takes_s, size)
                n_peaks = find_peaks(profile, n_rows, r.peaks)
            n_rows = add(profile, n_rows, start_s[k], start_s[k] + takes_s, -size)
        if start_s[k] == now_s:
            r.started[n_started] = k
            n_started += 1
        else:
            r.jobs[n_left], r.start_s[n_left] = int(r.waiting[k, JOB]), start_s[k]
            n_left += 1
    r.n[N_RESERVED], r.n[N_ROWS], r.n[IS_SETTLED] = n_left, n_rows, is_settled
    for x in range(n_rows):
        r.last_profile[x, TIME_S], r.last_profile[x, FREE] = profile[x, TIME_S], profile[x, FREE]
    return n_started


@inlined
def first_reserved_s(r: Reservations) -> float:
    """The start of the first reservation; infinite if there is none."""
    first_s = np.inf
    for x in range(r.n[N_RESERVED]):
        first_s = min(first_s, r.start_s[x])
    return first_s
