"""Job classes in order of their time on each machine class, sorted only as far as needed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import Floats, Ints, Ints2, inlined, part
from scheduler.mapping.kernels.table import Table

DEPTH = 64
SHORT = 16


class Sorting(NamedTuple):
    """For each machine class its job classes by (time, first job)."""

    order: Ints2  # (K, C)
    sorted_to: Ints  # (K,) number of classes in their final places
    bounds: Ints2  # (K, DEPTH) a stack of places where partitions end
    depth: Ints  # (K,)


def unsorted(table: Table) -> Sorting:
    n_machine_classes, n_job_classes = table.by_machine_class_s.shape
    return Sorting(
        np.arange(n_job_classes)[None, :].repeat(n_machine_classes, axis=0),
        np.zeros(n_machine_classes, dtype=np.int64),
        np.empty((n_machine_classes, DEPTH), dtype=np.int64),
        np.zeros(n_machine_classes, dtype=np.int64),
    )


@part
def end_of_stretch(table: Table, sorting: Sorting, k: int) -> int:
    """The end of the partition to sort next."""
    if sorting.depth[k] == 0:
        return int(sorting.order.shape[1])
    return int(sorting.bounds[k, sorting.depth[k] - 1])


@part
def sort_on(table: Table, sorting: Sorting, k: int) -> None:
    """Sort at least one more of machine class k's job classes.

    Incremental quicksort (Paredes and Navarro 2006): only the first partition is sorted, and the ends of the
    others are stored. Pivots are near the first sixth, since most of an order is never needed.
    """
    times_s, order = table.by_machine_class_s[k], sorting.order[k]
    begin, end = sorting.sorted_to[k], end_of_stretch(table, sorting, k)
    while end - begin > SHORT:
        end = split(table, times_s, order, begin, end)
        if sorting.depth[k] < DEPTH:  # otherwise it is partitioned again
            sorting.bounds[k, sorting.depth[k]] = end
            sorting.depth[k] += 1
    for x in range(begin + 1, end):
        c, y = order[x], x
        while y > begin and comes_before(table, times_s, c, order[y - 1]):
            order[y] = order[y - 1]
            y -= 1
        order[y] = c
    sorting.sorted_to[k] = end
    while sorting.depth[k] > 0 and sorting.bounds[k, sorting.depth[k] - 1] <= end:
        sorting.depth[k] -= 1


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


@inlined
def comes_before(table: Table, times_s: Floats, a: int, b: int) -> bool:
    if times_s[a] != times_s[b]:
        return bool(times_s[a] < times_s[b])
    return bool(table.jobs[table.first_job[a]] < table.jobs[table.first_job[b]])


@inlined
def end_of_run(table: Table, sorting: Sorting, k: int, x: int) -> int:
    """The end of the job classes in machine class k's order with the same time as the one at x."""
    times_s, order, past = table.by_machine_class_s[k], sorting.order[k], x + 1
    if past == sorting.sorted_to[k] or times_s[order[past]] == times_s[order[x]]:
        past = past_equals(table, sorting, k, x)
    return past


@part
def past_equals(table: Table, sorting: Sorting, k: int, x: int) -> int:
    times_s, order, step = table.by_machine_class_s[k], sorting.order[k], 1
    low = high = x + 1
    while True:
        if high >= sorting.sorted_to[k]:
            if sorting.sorted_to[k] == len(order):
                break
            sort_on(table, sorting, k)
        elif times_s[order[high]] == times_s[order[x]]:
            low, high, step = high + 1, high + step, 2 * step
        else:
            break
    high = min(high, len(order))
    while low < high:
        middle = (low + high) // 2
        if times_s[order[middle]] > times_s[order[x]]:
            high = middle
        else:
            low = middle + 1
    return int(low)
