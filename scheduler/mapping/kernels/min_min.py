"""Min-min by classes: the least completion is, over machine classes, the least ready time + shortest job."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import Floats, Ints, Ints2, allocate, called_from_python, inlined, part
from scheduler.mapping.kernels.lines import Lines, line_up, place, soonest
from scheduler.mapping.kernels.table import LAST_INDEX, NONE, Plan, Table, is_used_up

FEW_LEFT = 512
"""If more job classes remain, they are sorted: repeated searches would take quadratic time."""
DEPTH = 64
SHORT = 16


class Columns(NamedTuple):
    """For each machine class its job classes by (time, first job), sorted as far as needed."""

    order: Ints2  # (K, C)
    sorted_to: Ints  # (K,) number of classes in their final places
    bounds: Ints2  # (K, DEPTH) a stack of places where partitions end
    depth: Ints  # (K,)
    at: Ints  # (K,) the classes before that place have no job left
    top: Ints  # (K,) the class of the shortest job left; NONE if no class can run
    key_s: Floats  # (K,) its completion
    left: Ints  # (C,) the first `n_left` are the classes with jobs left
    place_of: Ints  # (C,) place of each class among them
    n_left: Ints  # (1,)
    zero_s: Floats  # (K,) zeros


def room_for_columns(table: Table) -> Columns:
    c, k = table.by_job_class_s.shape
    room = allocate(Columns, (k, c), k, (k, DEPTH), k, k, k, k, c, c, 1, k)
    room.order[:] = np.arange(c)
    return room


@inlined
def comes_before(table: Table, times_s: Floats, a: int, b: int) -> bool:
    if times_s[a] != times_s[b]:
        return bool(times_s[a] < times_s[b])
    return bool(table.jobs[table.first_job[a]] < table.jobs[table.first_job[b]])


@inlined
def end_of_partition(columns: Columns, k: int) -> int:
    depth = columns.depth[k]
    return int(columns.bounds[k, depth - 1]) if depth > 0 else int(columns.order.shape[1])


@part
def sort_on(table: Table, columns: Columns, k: int) -> None:
    """Sort at least one more of machine class k's job classes.

    Incremental quicksort (Paredes and Navarro 2006): only the first partition is sorted, and the ends of the
    others are stored. Pivots are near the first sixth, since most of an order is never needed.
    """
    times_s, order = table.by_machine_class_s[k], columns.order[k]
    begin, end = columns.sorted_to[k], end_of_partition(columns, k)
    while end - begin > SHORT:
        end = split(table, times_s, order, begin, end)
        if columns.depth[k] < DEPTH:  # otherwise it is partitioned again
            columns.bounds[k, columns.depth[k]] = end
            columns.depth[k] += 1
    for x in range(begin + 1, end):
        c, y = order[x], x
        while y > begin and comes_before(table, times_s, c, order[y - 1]):
            order[y] = order[y - 1]
            y -= 1
        order[y] = c
    columns.sorted_to[k] = end
    while columns.depth[k] > 0 and columns.bounds[k, columns.depth[k] - 1] <= end:
        columns.depth[k] -= 1


@part
def split(table: Table, times_s: Floats, order: Ints, begin: int, end: int) -> int:
    """Partition by a pivot; returns where the second part begins. Neither part is empty."""
    step = (end - begin) // 5
    pivot_at = begin
    for x in range(begin + step, begin + 5 * step, step):
        if comes_before(table, times_s, order[x], order[pivot_at]):
            pivot_at = x
    pivot = order[pivot_at]
    order[pivot_at] = order[begin]
    order[begin] = pivot
    pivot_s, cut = times_s[pivot], begin + 1
    for x in range(begin + 1, end):  # without branches that are hard to predict
        c = order[x]
        order[x] = order[cut]
        order[cut] = c
        if times_s[c] == pivot_s:
            cut += 1 if comes_before(table, times_s, c, pivot) else 0
        else:
            cut += 1 if times_s[c] < pivot_s else 0
    return cut


@part
def find_top(table: Table, lines: Lines, columns: Columns, next_job: Ints, k: int) -> None:
    """Find the shortest job left. If few classes are left, search these instead of sorting."""
    times_s, order = table.by_machine_class_s[k], columns.order[k]
    top, least_s = NONE, np.inf
    while top == NONE and columns.at[k] < len(order):
        if columns.at[k] == columns.sorted_to[k]:
            to_sort = end_of_partition(columns, k) - columns.sorted_to[k]
            if columns.n_left[0] <= min(FEW_LEFT, to_sort // 3):
                break
            sort_on(table, columns, k)
        c = order[columns.at[k]]
        if is_used_up(table, next_job, c):
            columns.at[k] += 1
        else:
            top, least_s = c, times_s[c]
    if top == NONE:
        for x in range(columns.n_left[0]):
            if times_s[columns.left[x]] < least_s:
                top, least_s = columns.left[x], times_s[columns.left[x]]
    columns.top[k], columns.key_s[k] = top, lines.front_s[k] + least_s


@inlined
def lowest_job(
    table: Table, lines: Lines, columns: Columns, next_job: Ints, least_s: float, n_offers: int
) -> tuple[int, int]:
    """The class of the lowest job that can complete at `least_s`; the lowest such job of other classes."""
    best, lowest, others = NONE, LAST_INDEX, LAST_INDEX
    for y in range(n_offers):
        k = lines.offers[y]
        times_s, order, x = table.by_machine_class_s[k], columns.order[k], columns.at[k]
        by_order = x < columns.sorted_to[k]
        end = len(order) if by_order else columns.n_left[0]
        x = x if by_order else 0
        while x < end:
            if by_order and x == columns.sorted_to[k]:
                sort_on(table, columns, k)
            c = order[x] if by_order else columns.left[x]
            x += 1
            if lines.front_s[k] + times_s[c] != least_s:
                if by_order:
                    break
            elif c != best and not is_used_up(table, next_job, c):
                i = table.jobs[next_job[c]]
                others = min(others, max(i, lowest))
                if i < lowest:
                    best, lowest = c, i
    return best, others


@called_from_python
def min_min(table: Table, lines: Lines, columns: Columns, plan: Plan, next_job: Ints, ready_s: Floats) -> int:
    """Map the jobs from `next_job` (C,) on, the least completion first; `ready_s` by machine index.

    Returns the number of jobs written to `plan`; jobs that no machine can complete are left out. With C and K
    classes and n jobs at most n steps, each O(K); and sorting, O(C K log C), on most matrices O(C K).
    """
    line_up(table, lines, ready_s)
    n = done = 0
    for c in range(len(next_job)):
        if not is_used_up(table, next_job, c):
            columns.left[n], columns.place_of[c] = c, n
            n += 1
    columns.n_left[0] = n
    for k in range(len(columns.at)):
        columns.at[k] = 0
        find_top(table, lines, columns, next_job, k)
    while True:
        least_s = soonest(columns.key_s, columns.zero_s)
        if least_s == np.inf:
            return done
        n_offers = 0
        for k in range(len(columns.key_s)):
            if columns.key_s[k] == least_s:
                lines.offers[n_offers] = k
                n_offers += 1
        c, until_job = lowest_job(table, lines, columns, next_job, least_s, n_offers)
        placed, used = place(table, lines, plan, done, next_job, c, least_s, until_job, n_offers)
        done += placed
        columns.key_s[used] = lines.front_s[used] + table.by_machine_class_s[used, columns.top[used]]
        if is_used_up(table, next_job, c):
            columns.n_left[0] -= 1
            last = columns.left[columns.n_left[0]]
            columns.left[columns.place_of[c]] = last
            columns.place_of[last] = columns.place_of[c]
            for k in range(len(columns.top)):
                if columns.top[k] == c:
                    find_top(table, lines, columns, next_job, k)
