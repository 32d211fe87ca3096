"""For each machine class its shortest job left."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from scheduler.compiled import FLOATS, INTS, Floats, Ints, inlined, named_tuple, part, room_for_ints
from scheduler.mapping.kernels.lines import Lines
from scheduler.mapping.kernels.sorting import Sorting, end_of_run, end_of_stretch, sort_on
from scheduler.mapping.kernels.table import BEYOND_ALL, NOBODY, Table, is_used_up

FEW_LEFT = 512
"""More job classes are sorted in any case: to look through them again and again would cost their square."""


class Heads(NamedTuple):
    """For each machine class the job class with its shortest job left, and which job classes are left.

    Job classes that take equally long are a run of the sorted order. As soon as somebody looks for the
    lowest job of a run of more than one, it is a binary heap by the lowest job left.
    """

    top: Ints  # (K,)
    at: Ints  # (K,) where its run begins; `sorted_to` where the order has been given up
    key_s: Floats  # (K,) when that job would be done
    job: Ints  # (K, C) the lowest job left of the class in each place of the order, when last looked up
    in_heaps_to: Ints  # (K,) runs before that place are heaps, with `job` set
    left: Ints  # (C,) the first `n_left` are the classes that have jobs left
    place_of: Ints  # (C,) where each class stands among them
    n_left: Ints  # (1,)
    zero_s: Floats  # (K,) zeros


HEADS = named_tuple(
    (INTS, INTS, FLOATS, types.Array(types.int64, 2, "C"), INTS, INTS, INTS, INTS, FLOATS), Heads
)


def room_for_heads(table: Table) -> Heads:
    n_job_classes, n_machine_classes = table.by_job_class_s.shape
    return Heads(
        room_for_ints(n_machine_classes),
        room_for_ints(n_machine_classes),
        np.empty(n_machine_classes),
        np.empty((n_machine_classes, n_job_classes), dtype=np.int64),
        room_for_ints(n_machine_classes),
        room_for_ints(n_job_classes),
        room_for_ints(n_job_classes),
        room_for_ints(1),
        np.zeros(n_machine_classes),
    )


@part
def find_tops(table: Table, sorting: Sorting, lines: Lines, heads: Heads, next_job: Ints) -> None:
    """At the beginning."""
    heads.n_left[0] = 0
    for c in range(len(next_job)):
        if not is_used_up(table, next_job, c):
            heads.left[heads.n_left[0]] = c
            heads.place_of[c] = heads.n_left[0]
            heads.n_left[0] += 1
    for k in range(len(heads.at)):
        heads.at[k] = heads.in_heaps_to[k] = 0
        find_top(table, sorting, lines, heads, next_job, k)


@inlined
def drop_class(table: Table, sorting: Sorting, lines: Lines, heads: Heads, next_job: Ints, c: int) -> None:
    """No job is left of class c."""
    heads.n_left[0] -= 1
    last = heads.left[heads.n_left[0]]
    heads.left[heads.place_of[c]] = last
    heads.place_of[last] = heads.place_of[c]
    for k in range(len(heads.top)):
        if heads.top[k] == c:
            find_top(table, sorting, lines, heads, next_job, k)


@inlined
def set_key(table: Table, lines: Lines, heads: Heads, k: int) -> None:
    heads.key_s[k] = np.inf
    if heads.top[k] != NOBODY:
        heads.key_s[k] = lines.front_s[k] + table.by_machine_class_s[k, heads.top[k]]


@inlined
def find_top(table: Table, sorting: Sorting, lines: Lines, heads: Heads, next_job: Ints, k: int) -> None:
    """The shortest job left on machine class k, by the order as far as it is worth sorting.

    Where few job classes are left, and far fewer than the next stretch has, they are looked through instead.
    """
    times_s, top, least_s = table.by_machine_class_s[k], NOBODY, np.inf
    while top == NOBODY and heads.at[k] < len(next_job):
        if heads.at[k] == sorting.sorted_to[k]:
            stretch = end_of_stretch(table, sorting, k) - sorting.sorted_to[k]
            if heads.n_left[0] <= min(FEW_LEFT, stretch // 3):
                break
            sort_on(table, sorting, k)
        if heads.at[k] < heads.in_heaps_to[k]:
            top = top_of_heap(table, sorting, heads, next_job, k)
        elif is_used_up(table, next_job, sorting.order[k, heads.at[k]]):
            heads.at[k] += 1
        else:
            top = sorting.order[k, heads.at[k]]
    if top == NOBODY:
        for x in range(heads.n_left[0]):
            if times_s[heads.left[x]] < least_s:
                top, least_s = heads.left[x], times_s[heads.left[x]]
    heads.top[k] = top
    set_key(table, lines, heads, k)


@inlined
def lowest_job(
    table: Table,
    sorting: Sorting,
    lines: Lines,
    heads: Heads,
    next_job: Ints,
    least_s: float,
    n_offers: int,
) -> tuple[int, int]:
    """Of the jobs that can be done at `least_s`, the class of the lowest, and the lowest of other classes.

    That other may be lower than it is, which only makes for smaller steps.
    """
    best, lowest, others = NOBODY, BEYOND_ALL, BEYOND_ALL
    for y in range(n_offers):
        k = lines.offers[y]
        times_s, order, x = table.by_machine_class_s[k], sorting.order[k], heads.at[k]
        by_order = x < sorting.sorted_to[k]
        end = len(order) if by_order else heads.n_left[0]
        x = x if by_order else 0
        while x < end:
            if by_order and x == sorting.sorted_to[k]:
                sort_on(table, sorting, k)
            c, past = order[x] if by_order else heads.left[x], x + 1
            is_tied = lines.front_s[k] + times_s[c] == least_s
            if by_order and not is_tied:
                break
            if by_order:
                past = end_of_run(table, sorting, k, x)
            if past > x + 1:
                c = lowest_of_heap(table, sorting, heads, next_job, k, x, past)
                others = min(others, heads.job[k, x + 1])
                if past > x + 2:
                    others = min(others, heads.job[k, x + 2])
            if is_tied and c != NOBODY and c != best and not is_used_up(table, next_job, c):
                i = table.jobs[next_job[c]]
                others = min(others, max(i, lowest))
                if i < lowest:
                    best, lowest = c, i
            x = past
    return best, others


@part
def top_of_heap(table: Table, sorting: Sorting, heads: Heads, next_job: Ints, k: int) -> int:
    """Go on to the next run if no job of this one is left."""
    past = end_of_run(table, sorting, k, heads.at[k])
    top = lowest_of_heap(table, sorting, heads, next_job, k, heads.at[k], past)
    if top == NOBODY:
        heads.at[k] = past
    return int(top)


@part
def lowest_of_heap(
    table: Table, sorting: Sorting, heads: Heads, next_job: Ints, k: int, begin: int, end: int
) -> int:
    """Of a run of machine class k's order the class with the lowest job left; NOBODY where none is left."""
    order, job = sorting.order[k], heads.job[k]
    for x in range(max(begin, heads.in_heaps_to[k]), end):
        rise(order, job, begin, x, order[x], lowest_left(table, next_job, order[x]))
    heads.in_heaps_to[k] = max(heads.in_heaps_to[k], end)
    while True:
        c = order[begin]
        i = lowest_left(table, next_job, c)
        if i == job[begin]:
            return NOBODY if i == BEYOND_ALL else int(c)
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
    return BEYOND_ALL if is_used_up(table, next_job, c) else int(table.jobs[next_job[c]])


@inlined
def rise(order: Ints, job: Ints, begin: int, x: int, c: int, i: int) -> None:
    """Put class c with lowest job i into place x of the heap at `begin`, or as far above as it belongs."""
    while x > begin:
        above = begin + (x - begin - 1) // 2
        if job[above] <= i:
            break
        order[x], job[x] = order[above], job[above]
        x = above
    order[x], job[x] = c, i
