"""Min-min by classes, and the shortest remaining job on each machine class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import Floats, Ints, Ints2, allocate, called_from_python, inlined, part
from scheduler.mapping.kernels.lines import Lines, line_up, place, soonest
from scheduler.mapping.kernels.sorting import Sorting, end_of_run, end_of_stretch, sort_on, unsorted
from scheduler.mapping.kernels.table import LAST_INDEX, NONE, Plan, Table, is_used_up

FEW_LEFT = 512
"""If more job classes remain, they are sorted: repeated searches would take quadratic time."""


class Heads(NamedTuple):
    """For each machine class, the job class with the shortest remaining job; and all remaining classes.

    Job classes with equal times are a run of the sorted order. When the lowest job of a run of several
    classes is first needed, the run becomes a binary heap by lowest remaining job. Invariants, for each
    machine class k, between calls:

    * The classes before `at[k]` in the order have no job left; `at[k]` begins a run, or is `sorted_to[k]`.
    * In runs before `in_heaps_to[k]`, `job` is a heap. An entry is a lower bound of its class's lowest
      remaining job, since jobs of a class are taken in ascending order; it is corrected at the top.
    * `place_of[left[x]]` is x for x < `n_left`.
    * `key_s[k]` is infinite if no remaining class can run on k.
    """

    top: Ints  # (K,)
    at: Ints  # (K,) where its run begins; `sorted_to` if the rest is searched instead
    key_s: Floats  # (K,) completion of that job
    job: Ints2  # (K, C) lowest remaining job of the class in each place of the order, at its last lookup
    in_heaps_to: Ints  # (K,) runs before that place are heaps, with `job` set
    left: Ints  # (C,) the first `n_left` are the classes with remaining jobs
    place_of: Ints  # (C,) position of each class among them
    n_left: Ints  # (1,)
    zero_s: Floats  # (K,) zeros
    sorting: Sorting  # kept for later mappings of the same jobs


def room_for_heads(table: Table) -> Heads:
    c, k = table.by_job_class_s.shape
    return allocate(Heads, k, k, k, (k, c), k, c, c, 1, k, sorting=unsorted(table))


@part
def find_tops(table: Table, lines: Lines, heads: Heads, next_job: Ints) -> None:
    """Initialise all fields."""
    heads.n_left[0] = 0
    for c in range(len(next_job)):
        if not is_used_up(table, next_job, c):
            heads.left[heads.n_left[0]] = c
            heads.place_of[c] = heads.n_left[0]
            heads.n_left[0] += 1
    for k in range(len(heads.at)):
        heads.at[k] = heads.in_heaps_to[k] = 0
        find_top(table, lines, heads, next_job, k)


@inlined
def drop_class(table: Table, lines: Lines, heads: Heads, next_job: Ints, c: int) -> None:
    """Remove class c, which has no job left."""
    heads.n_left[0] -= 1
    last = heads.left[heads.n_left[0]]
    heads.left[heads.place_of[c]] = last
    heads.place_of[last] = heads.place_of[c]
    for k in range(len(heads.top)):
        if heads.top[k] == c:
            find_top(table, lines, heads, next_job, k)


@inlined
def set_key(table: Table, lines: Lines, heads: Heads, k: int) -> None:
    heads.key_s[k] = np.inf
    if heads.top[k] != NONE:
        heads.key_s[k] = lines.front_s[k] + table.by_machine_class_s[k, heads.top[k]]


@inlined
def find_top(table: Table, lines: Lines, heads: Heads, next_job: Ints, k: int) -> None:
    """Find the shortest remaining job on machine class k, extending the sorted order if needed.

    If few job classes remain, and far fewer than the next stretch has, search them instead.
    """
    times_s, top, least_s = table.by_machine_class_s[k], NONE, np.inf
    while top == NONE and heads.at[k] < len(next_job):
        if heads.at[k] == heads.sorting.sorted_to[k]:
            stretch = end_of_stretch(table, heads.sorting, k) - heads.sorting.sorted_to[k]
            if heads.n_left[0] <= min(FEW_LEFT, stretch // 3):
                break
            sort_on(table, heads.sorting, k)
        if heads.at[k] < heads.in_heaps_to[k]:
            top = top_of_heap(table, heads, next_job, k)
        elif is_used_up(table, next_job, heads.sorting.order[k, heads.at[k]]):
            heads.at[k] += 1
        else:
            top = heads.sorting.order[k, heads.at[k]]
    if top == NONE:
        for x in range(heads.n_left[0]):
            if times_s[heads.left[x]] < least_s:
                top, least_s = heads.left[x], times_s[heads.left[x]]
    heads.top[k] = top
    set_key(table, lines, heads, k)


@inlined
def lowest_job(
    table: Table, lines: Lines, heads: Heads, next_job: Ints, least_s: float, n_offers: int
) -> tuple[int, int]:
    """The class of the lowest job that can complete at `least_s`, and the lowest such job of other classes.

    The latter is a lower bound; a smaller one only makes for smaller steps.
    """
    best, lowest, others = NONE, LAST_INDEX, LAST_INDEX
    for y in range(n_offers):
        k = lines.offers[y]
        times_s, order, x = table.by_machine_class_s[k], heads.sorting.order[k], heads.at[k]
        by_order = x < heads.sorting.sorted_to[k]
        end = len(order) if by_order else heads.n_left[0]
        x = x if by_order else 0
        while x < end:
            if by_order and x == heads.sorting.sorted_to[k]:
                sort_on(table, heads.sorting, k)
            c, past = order[x] if by_order else heads.left[x], x + 1
            is_tied = lines.front_s[k] + times_s[c] == least_s
            if by_order and not is_tied:
                break
            if by_order:
                past = end_of_run(table, heads.sorting, k, x)
            if past > x + 1:
                c = lowest_of_heap(table, heads, next_job, k, x, past)
                others = min(others, heads.job[k, x + 1])
                if past > x + 2:
                    others = min(others, heads.job[k, x + 2])
            if is_tied and c != NONE and c != best and not is_used_up(table, next_job, c):
                i = table.jobs[next_job[c]]
                others = min(others, max(i, lowest))
                if i < lowest:
                    best, lowest = c, i
            x = past
    return best, others


@part
def top_of_heap(table: Table, heads: Heads, next_job: Ints, k: int) -> int:
    """The class with the lowest job of the current run. If none is left: NONE, and go to the next run."""
    past = end_of_run(table, heads.sorting, k, heads.at[k])
    top = lowest_of_heap(table, heads, next_job, k, heads.at[k], past)
    if top == NONE:
        heads.at[k] = past
    return int(top)


@part
def lowest_of_heap(table: Table, heads: Heads, next_job: Ints, k: int, begin: int, end: int) -> int:
    """The class with the lowest remaining job in a run of machine class k's order; NONE if none is left."""
    order, job = heads.sorting.order[k], heads.job[k]
    for x in range(max(begin, heads.in_heaps_to[k]), end):
        rise(order, job, begin, x, order[x], lowest_left(table, next_job, order[x]))
    heads.in_heaps_to[k] = max(heads.in_heaps_to[k], end)
    while True:
        c = order[begin]
        i = lowest_left(table, next_job, c)
        if i == job[begin]:
            return NONE if i == LAST_INDEX else int(c)
        x = begin
        while True:
            child = 2 * x - begin + 1
            if child + 1 < end and job[child + 1] < job[child]:
                child += 1
            if child >= end or job[child] >= i:
                break
            order[x], job[x] = order[child], job[child]
            x = child
        order[x], job[x] = c, i


@inlined
def lowest_left(table: Table, next_job: Ints, c: int) -> int:
    return LAST_INDEX if is_used_up(table, next_job, c) else int(table.jobs[next_job[c]])


@inlined
def rise(order: Ints, job: Ints, begin: int, x: int, c: int, i: int) -> None:
    """Insert class c with lowest job i at position x of the heap at `begin`, and sift it up."""
    while x > begin:
        above = begin + (x - begin - 1) // 2
        if job[above] <= i:
            break
        order[x], job[x] = order[above], job[above]
        x = above
    order[x], job[x] = c, i


@called_from_python
def min_min(table: Table, lines: Lines, heads: Heads, plan: Plan, next_job: Ints, ready_s: Floats) -> int:
    """Map the jobs from `next_job` (C,) on, the least completion first; `ready_s` by machine index.

    Returns the number of jobs written to `plan`; jobs that no machine can complete are left out. With C and K
    classes and n jobs at most n steps, each O(K); and sorting, O(C K log C), on most matrices O(C K).
    """
    line_up(table, lines, ready_s)
    find_tops(table, lines, heads, next_job)
    done = 0
    while True:
        least_s = soonest(heads.key_s, heads.zero_s)
        if least_s == np.inf:
            return done
        n_offers = 0
        for k in range(len(heads.key_s)):
            if heads.key_s[k] == least_s:
                lines.offers[n_offers] = k
                n_offers += 1
        c, until_job = lowest_job(table, lines, heads, next_job, least_s, n_offers)
        placed, used = place(table, lines, plan, done, next_job, c, least_s, until_job, n_offers)
        done += placed
        if is_used_up(table, next_job, c):
            drop_class(table, lines, heads, next_job, c)
        set_key(table, lines, heads, used)
