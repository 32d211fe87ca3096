"""The reservations of the jobs that wait for identical nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import Floats, Floats2, Ints, inlined, part
from scheduler.free_nodes.kernels.free_over_time import (
    END_S,
    FREE,
    RELEASED,
    TIME_S,
    ReleaseTable,
    add,
    copied,
    earliest_s,
    find_peaks,
    free_over_time,
    is_nowhere_freer,
    row_at,
)
from scheduler.free_nodes.kernels.queue_tree import ESTIMATE_S, JOB, N_JOBS, SIZE, Tree, place_of

N_RESERVED, N_ROWS, N_ROWS_OF_RUNS, IS_SETTLED = range(4)
"""Places in `Reservations.n`: the number of reservations, those of rows of the last profiles, and whether
each reservation was the earliest possible one beside the others."""


class Reservations(NamedTuple):
    """What one pass hands on to the next, and its work space, for n waiting jobs and r runs."""

    n: Ints  # (4,): N_RESERVED, N_ROWS, N_ROWS_OF_RUNS, IS_SETTLED
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
    runs: Floats2  # (4 n + r + 3, 2): the profile without reservations
    last_profile: Floats2  # (4 n + r + 3, 2): with all reservations, after the last pass
    last_runs: Floats2  # (4 n + r + 3, 2): without them


@inlined
def first_reserved_s(r: Reservations) -> float:
    """The start of the first reservation; infinite if there is none."""
    first_s = np.inf
    for x in range(r.n[N_RESERVED]):
        first_s = min(first_s, r.start_s[x])
    return first_s


@part
def carry_over(jobs: Floats2, jobs_before: Ints, starts_before_s: Floats, starts_s: Floats) -> int:
    """Copy earlier reservations; infinite for jobs without one. Both tables are in queue order. Returns how
    many are found."""
    y, n_found = 0, 0
    for x in range(len(jobs)):
        starts_s[x] = np.inf
        for z in range(y, len(jobs_before)):
            if jobs_before[z] == jobs[x, JOB]:
                starts_s[x] = starts_before_s[z]
                y = z + 1
                n_found += 1
                break
    return n_found


@part
def waiting_in(tree: Tree, n_places: int, waiting: Floats2) -> int:
    """Write a row of a leaf's columns for each job in the queue, with its place instead of N_JOBS. Returns
    their number."""
    capacity, n = len(tree) // 2, 0
    for place in range(place_of(tree, 0), n_places):
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
def ends_as_expected(r: Reservations, n_rows: int) -> bool:
    """Whether as many nodes are free beside the runs, from now on, as was expected after the last pass. In
    both profiles, all rows but the first are those in which a run ends."""
    n_last, runs, last = r.n[N_ROWS_OF_RUNS], r.runs, r.last_runs
    first = row_at(last, n_last, runs[0, TIME_S])
    if n_last - first != n_rows or runs[0, FREE] != last[first, FREE]:
        return False
    for x in range(1, n_rows):
        if runs[x, TIME_S] != last[first + x, TIME_S] or runs[x, FREE] != last[first + x, FREE]:
            return False
    return True


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
        if time_s == np.inf:
            break  # the others never end
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
def profile_now(
    r: Reservations,
    n: int,
    n_found: int,
    releases: ReleaseTable,
    n_running: int,
    n_free: int,
    n_rows_of_runs: int,
    now_s: float,
) -> int:
    """The profile with the reservations of the last pass, of which `n_found` are of the n jobs; returns the
    number of rows. IS_SETTLED is then whether each is still the earliest possible one."""
    is_kept = n_found == r.n[N_RESERVED] and first_reserved_s(r) >= now_s
    if is_kept and ends_as_expected(r, n_rows_of_runs):
        return copied(r.last_profile, r.n[N_ROWS], r.profile, now_s)
    sort_stable(r.new_start_s[:n], r.by_start[:n], r.scratch)
    n_rows = keep_all(r, n, releases, n_running, n_free, now_s)
    if n_rows == 0:
        r.n[IS_SETTLED] = 0
        return keep_or_move(r, n, releases, n_running, n_free, now_s)
    if r.n[IS_SETTLED] == 1:
        r.n[IS_SETTLED] = is_nowhere_freer(r.profile, n_rows, r.last_profile, r.n[N_ROWS])
    return n_rows


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
    `started` are their rows of `waiting`, in order. JOB must be different for all jobs that wait; size and
    estimate of each must stay the same."""
    n, before, profile = waiting_in(tree, n_places, r.waiting), r.n[N_RESERVED], r.profile
    start_s, runs = r.new_start_s, r.runs
    n_found = carry_over(r.waiting[:n], r.jobs[:before], r.start_s[:before], start_s)
    n_rows_of_runs = free_over_time(releases, n_running, n_free, now_s, runs)
    n_rows = profile_now(r, n, n_found, releases, n_running, n_free, n_rows_of_runs, now_s)
    all_stay, is_settled = r.n[IS_SETTLED] == 1, True
    n_peaks, n_started, n_left = 0, 0, 0
    for k in range(n):
        size, takes_s, before_s = r.waiting[k, SIZE], r.waiting[k, ESTIMATE_S], start_s[k]
        from_s = np.inf
        if before_s == np.inf or not all_stay:
            if n_peaks == 0:
                n_peaks = find_peaks(profile, n_rows, r.peaks)
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
            n_rows_of_runs = add(runs, n_rows_of_runs, now_s, now_s + takes_s, -size)
            r.started[n_started] = k
            n_started += 1
        else:
            r.jobs[n_left], r.start_s[n_left] = int(r.waiting[k, JOB]), start_s[k]
            n_left += 1
    r.n[N_RESERVED], r.n[IS_SETTLED] = n_left, is_settled
    r.n[N_ROWS] = copied(profile, n_rows, r.last_profile, now_s)
    r.n[N_ROWS_OF_RUNS] = copied(runs, n_rows_of_runs, r.last_runs, now_s)
    return n_started
