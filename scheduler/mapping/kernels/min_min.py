"""Min-min by classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from scheduler.compiled import compiled, inlined, part
from scheduler.mapping.kernels.lines import LINES, Lines, line_up, place, soonest
from scheduler.mapping.kernels.sorting import SORTING, Sorting, end_of_stretch, past_equals, sort_on
from scheduler.mapping.kernels.table import (
    BEYOND_ALL,
    FLOATS,
    INTS,
    NOBODY,
    PLAN,
    TABLE,
    Floats,
    Ints,
    Plan,
    Table,
    is_used_up,
    named_tuple,
    room_for_ints,
)

FEW_LEFT = 512
"""More job classes are sorted in any case: to look through them again and again would cost their square."""


class Heads(NamedTuple):
    """For each machine class the job class with its shortest job left, and which job classes are left."""

    top: Ints  # (K,)
    at: Ints  # (K,) its place in the sorted order; `sorted_to` where that has been given up
    key_s: Floats  # (K,) when that job would be done
    left: Ints  # (C,) the first `n_left` are the classes that have jobs left
    place_of: Ints  # (C,) where each class stands among them
    n_left: Ints  # (1,)
    zero_s: Floats  # (K,) zeros


HEADS = named_tuple((INTS, INTS, FLOATS, INTS, INTS, INTS, FLOATS), Heads)


def room_for_heads(table: Table) -> Heads:
    n_job_classes, n_machine_classes = table.by_job_class_s.shape
    return Heads(
        room_for_ints(n_machine_classes),
        room_for_ints(n_machine_classes),
        np.empty(n_machine_classes),
        room_for_ints(n_job_classes),
        room_for_ints(n_job_classes),
        room_for_ints(1),
        np.zeros(n_machine_classes),
    )


@inlined
def set_key(table: Table, lines: Lines, heads: Heads, k: int) -> None:
    heads.key_s[k] = np.inf
    if heads.top[k] != NOBODY:
        heads.key_s[k] = lines.front_s[k] + table.by_machine_class_s[k, heads.top[k]]


@part
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
        if is_used_up(table, next_job, sorting.order[k, heads.at[k]]):
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
            c = order[x] if by_order else heads.left[x]
            if lines.front_s[k] + times_s[c] == least_s:
                if by_order and table.jobs[table.first_job[c]] > others:  # so are all that take as long
                    x = past_equals(table, sorting, k, x)
                    continue
                if c != best and not is_used_up(table, next_job, c):
                    i = table.jobs[next_job[c]]
                    others = min(others, max(i, lowest))
                    if i < lowest:
                        best, lowest = c, i
            elif by_order:
                break
            x += 1
    return best, others


@compiled(types.int64(TABLE, SORTING, LINES, HEADS, PLAN, INTS, FLOATS))
def min_min(
    table: Table,
    sorting: Sorting,
    lines: Lines,
    heads: Heads,
    plan: Plan,
    next_job: Ints,
    ready_s: Floats,
) -> int:
    """Map the jobs from `next_job` (C,) on, of all the least completion first; `ready_s` by machine index.

    Returns how many jobs were written to `plan`; jobs that no machine will ever complete are left out. With C
    and K classes and n jobs there are n steps at worst, each O(K), and fewer by as often as a choice repeats.
    Sorting is O(C K log C) in all, on most matrices O(C K).
    """
    line_up(table, lines, ready_s)
    heads.n_left[0] = 0
    for c in range(len(next_job)):
        if not is_used_up(table, next_job, c):
            heads.left[heads.n_left[0]] = c
            heads.place_of[c] = heads.n_left[0]
            heads.n_left[0] += 1
    for k in range(len(heads.at)):
        heads.at[k] = 0
        find_top(table, sorting, lines, heads, next_job, k)
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
        c, until_job = lowest_job(table, sorting, lines, heads, next_job, least_s, n_offers)
        placed, used = place(table, lines, plan, done, next_job, c, least_s, until_job, n_offers)
        done += placed
        if not is_used_up(table, next_job, c):
            set_key(table, lines, heads, used)
            continue
        heads.n_left[0] -= 1
        last = heads.left[heads.n_left[0]]
        heads.left[heads.place_of[c]] = last
        heads.place_of[last] = heads.place_of[c]
        for k in range(len(heads.top)):
            if heads.top[k] == c:
                find_top(table, sorting, lines, heads, next_job, k)
        set_key(table, lines, heads, used)
