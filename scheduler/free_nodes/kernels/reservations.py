"""The reservations of the jobs that wait for identical nodes."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from scheduler.compiled import Floats, Floats2, Ints, inlined, part
from scheduler.free_nodes.kernels.backfilling import Starting
from scheduler.free_nodes.kernels.profile import (
    Profile,
    add,
    begin,
    beside_runs,
    copy,
    earliest_s,
    expected_end_s,
    find_peaks,
    goes_on_as,
    is_nowhere_freer,
    row_from,
)
from scheduler.free_nodes.kernels.queue_tree import ESTIMATE_S, JOB, N_JOBS, SIZE, Tree, place_of
from scheduler.node_resources.kernels.releases import Releases


class Reservations(NamedTuple):
    """What one pass hands on to the next, and its work space."""

    n: Ints
    """The number of reservations: of `jobs`, in queue order, from `start_s` on."""
    jobs: Annotated[Ints, "waiting"]
    start_s: Annotated[Floats, "waiting"]
    is_settled: Ints
    """Whether each reservation was the earliest possible one beside the others."""
    last_profile: Profile
    """After the last pass."""
    last_runs: Profile
    """The same without reservations."""
    waiting: Annotated[Floats2, "waiting", 4]
    new_start_s: Annotated[Floats, "waiting"]
    by_start: Annotated[Ints, "waiting"]
    scratch: Annotated[Ints, "waiting"]
    end_s: Annotated[Floats, "waiting"]
    by_end: Annotated[Ints, "waiting"]
    profile: Profile
    peaks: Profile
    runs: Profile


@inlined
def first_reserved_s(r: Reservations) -> float:
    """The start of the first reservation; infinite if there is none."""
    first_s = np.inf
    for x in range(r.n[0]):
        first_s = min(first_s, r.start_s[x])
    return first_s


@part
def carry_over(r: Reservations, n: int) -> int:
    """Set `new_start_s` of n waiting jobs to the earlier reservations; infinite for jobs without one. Both
    tables are in queue order. Returns how many are found."""
    y, n_found = 0, 0
    for x in range(n):
        r.new_start_s[x] = np.inf
        for z in range(y, r.n[0]):
            if r.jobs[z] == r.waiting[x, JOB]:
                r.new_start_s[x] = r.start_s[z]
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
def sort_stable(keys: Floats, order: Ints, scratch: Ints, n: int) -> None:
    """Make `order` the places of n keys in ascending order; ties stay in their order. Merge sort of blocks
    that are sorted by insertion, since keys are nearly in order."""
    width = 16
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
def keep_all(r: Reservations, n: int, releases: Releases, n_free: int, now_s: float) -> bool:
    """Write the profile if all reservations are kept, of which overdue ones begin now. Returns whether enough
    nodes are free for them."""
    start_s, by_start, profile, n_kept = r.new_start_s, r.by_start, r.profile, 0
    while n_kept < n and start_s[by_start[n_kept]] < np.inf:
        k = by_start[n_kept]
        r.end_s[n_kept] = max(start_s[k], now_s) + r.waiting[k, ESTIMATE_S]
        n_kept += 1
    sort_stable(r.end_s, r.by_end, r.scratch, n_kept)
    begin(profile, now_s, n_free)
    n_running, x, y, z = releases.n[0], 0, 0, 0
    while x < n_running or z < n_kept:  # each reservation begins before it ends
        released_s = expected_end_s(releases, x, now_s) if x < n_running else np.inf
        begins_s = max(start_s[by_start[y]], now_s) if y < n_kept else np.inf
        ends_s = r.end_s[r.by_end[z]] if z < n_kept else np.inf
        time_s = min(released_s, begins_s, ends_s)
        if time_s == np.inf:
            break  # the others never end
        last = profile.n[0] - 1
        if time_s > profile.time_s[last] and profile.free[last] < 0:
            return False
        last = row_from(profile, time_s)
        if begins_s == time_s:
            profile.free[last] -= int(r.waiting[by_start[y], SIZE])
            y += 1
        elif ends_s == time_s:
            profile.free[last] += int(r.waiting[by_start[r.by_end[z]], SIZE])
            z += 1
        else:
            profile.free[last] += releases.released[x]
            x += 1
    if profile.free[profile.n[0] - 1] < 0:
        return False
    for y in range(n_kept):
        start_s[by_start[y]] = max(start_s[by_start[y]], now_s)
    return True


@part
def keep_or_move(r: Reservations, n: int, releases: Releases, n_free: int, now_s: float) -> None:
    """Write the profile if reservations that cannot be kept move to the earliest time after theirs."""
    beside_runs(r.profile, releases, n_free, now_s)
    for x in range(n):
        k = r.by_start[x]
        if r.new_start_s[k] < np.inf:
            size, takes_s, from_s = int(r.waiting[k, SIZE]), r.waiting[k, ESTIMATE_S], r.new_start_s[k]
            start_s = earliest_s(r.profile, max(from_s, now_s), size, takes_s, np.inf)
            add(r.profile, start_s, start_s + takes_s, -size)
            r.new_start_s[k] = start_s


@part
def write_profile(
    r: Reservations, n: int, n_found: int, releases: Releases, n_free: int, now_s: float
) -> None:
    """Write the profile with the reservations of the last pass, of which `n_found` are of the n jobs.
    `is_settled` is then whether each is still the earliest possible one."""
    is_kept = n_found == r.n[0] and first_reserved_s(r) >= now_s
    if is_kept and goes_on_as(r.runs, r.last_runs):
        copy(r.last_profile, r.profile, now_s)
        return
    sort_stable(r.new_start_s, r.by_start, r.scratch, n)
    if not keep_all(r, n, releases, n_free, now_s):
        r.is_settled[0] = 0
        keep_or_move(r, n, releases, n_free, now_s)
    elif r.is_settled[0]:
        r.is_settled[0] = is_nowhere_freer(r.profile, r.last_profile)


@part
def reserve(
    r: Reservations,
    tree: Tree,
    n_places: int,
    releases: Releases,
    n_free: int,
    now_s: float,
    starting: Starting,
) -> int:
    """One pass over a queue, in which new reservations replace the last ones. Writes the jobs that start to
    `starting`, in order; returns their number. JOB must be different for all jobs that wait; size and
    estimate of each must stay the same."""
    n, profile, start_s = waiting_in(tree, n_places, r.waiting), r.profile, r.new_start_s
    n_found = carry_over(r, n)
    beside_runs(r.runs, releases, n_free, now_s)
    write_profile(r, n, n_found, releases, n_free, now_s)
    all_stay, is_settled, has_peaks, n_left = r.is_settled[0] == 1, True, False, 0
    starting.n[0] = 0
    for k in range(n):
        size, takes_s, before_s = int(r.waiting[k, SIZE]), r.waiting[k, ESTIMATE_S], start_s[k]
        from_s = np.inf
        if before_s == np.inf or not all_stay:
            if not has_peaks:
                find_peaks(profile, r.peaks)
                has_peaks = True
            x = 0
            while x < r.peaks.n[0] and r.peaks.free[x] < size:
                x += 1
            from_s = r.peaks.time_s[x] if x < r.peaks.n[0] else np.inf
        if from_s < before_s:
            start_s[k] = earliest_s(profile, from_s, size, takes_s, before_s)
        if start_s[k] < before_s:
            if before_s < np.inf:
                is_settled = False
                add(profile, before_s, before_s + takes_s, size)
                find_peaks(profile, r.peaks)
            add(profile, start_s[k], start_s[k] + takes_s, -size)
        if start_s[k] == now_s:
            add(r.runs, now_s, now_s + takes_s, -size)
            x = starting.n[0]
            starting.place[x], starting.size[x] = int(r.waiting[k, N_JOBS]), size
            starting.takes_s[x], starting.rank[x] = takes_s, k
            starting.n[0] = x + 1
        else:
            r.jobs[n_left], r.start_s[n_left] = int(r.waiting[k, JOB]), start_s[k]
            n_left += 1
    r.n[0], r.is_settled[0] = n_left, is_settled
    copy(profile, r.last_profile, now_s)
    copy(r.runs, r.last_runs, now_s)
    return int(starting.n[0])
