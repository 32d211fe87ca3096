"""Max-min by classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import Floats, Ints, allocate, compiled, inlined, part
from scheduler.mapping.kernels.groups import (
    Blocks,
    Groups,
    best_completion_s,
    bound_of,
    enter,
    enter_members,
    join,
    meld_equals,
    take_tied,
    without_lowest,
)
from scheduler.mapping.kernels.least_work import SLACK, LeastWork, least_rest_s
from scheduler.mapping.kernels.lines import Lines, line_up, place
from scheduler.mapping.kernels.table import BEYOND_ALL, NOBODY, Plan, Table, is_used_up


class Bounds(NamedTuple):
    """Upper bounds of the best completions of each group, and room for those whose bounds are equal."""

    bound_s: Floats  # (K,)
    tied: Ints  # (C + B,)
    group_of: Ints  # (C + B,)


def room_for_bounds(table: Table, blocks: Blocks) -> Bounds:
    n_job_classes, n_machine_classes = table.by_job_class_s.shape
    n = n_job_classes + len(blocks.row_s)
    return allocate(Bounds, n_machine_classes, n, n)


@part
def largest(bound_s: Floats) -> float:
    """Four at a time, which processors can do at once."""
    a = b = c = d = -np.inf
    n = len(bound_s)
    whole = n - n % 4
    for k in range(0, whole, 4):
        a = max(a, bound_s[k])
        b = max(b, bound_s[k + 1])
        c = max(c, bound_s[k + 2])
        d = max(d, bound_s[k + 3])
    for k in range(whole, n):
        a = max(a, bound_s[k])
    return max(max(a, b), max(c, d))


@inlined
def next_class(
    table: Table,
    blocks: Blocks,
    lines: Lines,
    groups: Groups,
    bounds: Bounds,
    next_job: Ints,
    largest_s: float,
) -> tuple[int, int, int]:
    """Of the jobs whose bound is `largest_s` and true, the class of the lowest; NOBODY where none is found.

    And the lowest job of the other classes, which may be lower than it is; and how many classes were looked
    at. Those whose bound is not true go to the group that they belong to now. A block whose bound is true is
    dissolved.
    """
    tied, group_of = bounds.tied, bounds.group_of
    n_tied = take_tied(lines, groups, bounds.bound_s, largest_s, tied, group_of)
    found, looks, searching = NOBODY, 0, True
    while n_tied > 0 and searching:
        x = 0
        for y in range(1, n_tied):
            if groups.head[tied[y]] < groups.head[tied[x]]:
                x = y
        c, is_class = tied[x], tied[x] < len(next_job)
        rest = without_lowest(groups, c)
        if is_class and is_used_up(table, next_job, c):
            completion_s = -np.inf
        elif is_class and groups.head[c] < table.jobs[next_job[c]]:  # that one was taken elsewhere
            groups.head[c] = table.jobs[next_job[c]]
            tied[x] = meld_equals(groups, rest, c)
            continue
        else:
            completion_s = best_completion_s(table, blocks, lines, c)
            looks += 1
        tied[x] = rest
        if rest == NOBODY:
            n_tied -= 1
            tied[x], group_of[x] = tied[n_tied], group_of[n_tied]
        if completion_s == largest_s:
            searching = False
            if is_class:
                found = c
            else:
                enter_members(table, blocks, lines, groups, c - len(next_job))
                for k in range(len(bounds.bound_s)):
                    bounds.bound_s[k] = bound_of(lines, groups, k)
        elif completion_s > -np.inf:
            k = enter(table, blocks, lines, groups, c, completion_s)
            bounds.bound_s[k] = bound_of(lines, groups, k)
    others = BEYOND_ALL
    for x in range(n_tied):
        others = min(others, groups.head[tied[x]])
        join(groups, tied[x], group_of[x], -groups.minus_s[tied[x]])
        bounds.bound_s[group_of[x]] = largest_s
    return found, others, looks


@compiled
def max_min(
    table: Table,
    blocks: Blocks,
    groups: Groups,
    least_work: LeastWork,
    lines: Lines,
    bounds: Bounds,
    plan: Plan,
    next_job: Ints,
    ready_s: Floats,
    limit_s: float,
) -> int:
    """Map the jobs from `next_job` (C,) on, of all the best completions the largest first.

    `ready_s` by machine index, none of them less than when `groups` were made. Returns how many jobs were
    written to `plan`; jobs that no machine will ever complete are left out. As soon as the sum of completions
    is known to exceed `limit_s`, it ends and returns 0. With C and K classes and n jobs there are n steps at
    worst, each O(K) for each job class that is looked at; fewer by as often as a choice repeats. On most
    matrices few are looked at. At worst all are in every step; on few machine classes that have nothing to
    do with each other a good part of them.
    """
    line_up(table, lines, ready_s)
    n_offers = len(bounds.bound_s)
    for k in range(n_offers):
        lines.offers[k] = k
        bounds.bound_s[k] = bound_of(lines, groups, k)
    sum_s = 0.0
    done = looks = next_check = 0
    while True:
        if limit_s < np.inf and looks >= next_check:
            if sum_s + least_rest_s(table, least_work, lines, next_job) > limit_s * (1.0 + SLACK):
                return 0
            # So that checking costs less than looking.
            next_check = looks + 1 + 4 * (len(next_job) + len(ready_s)) // len(bounds.bound_s)
        largest_s = largest(bounds.bound_s)
        if largest_s == -np.inf:
            return done
        c, until_job, looked = next_class(table, blocks, lines, groups, bounds, next_job, largest_s)
        looks += looked
        if c == NOBODY:
            continue
        placed, k = place(table, lines, plan, done, next_job, c, largest_s, until_job, n_offers)
        sum_s += placed * largest_s
        done += placed
        if not is_used_up(table, next_job, c):
            groups.head[c] = table.jobs[next_job[c]]
            join(groups, c, k, table.by_job_class_s[c, k])
        bounds.bound_s[k] = bound_of(lines, groups, k)
