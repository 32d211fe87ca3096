"""Max-min by classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import Floats, Ints, allocate, called_from_python, inlined, part
from scheduler.mapping.kernels.groups import (
    Blocks,
    Groups,
    best_completion_s,
    blocks_of,
    bound_of,
    enter,
    enter_members,
    grouped,
    join,
    meld_equals,
    take_tied,
    without_lowest,
)
from scheduler.mapping.kernels.least_work import SLACK, LeastWork, least_rest_s, least_work_of
from scheduler.mapping.kernels.lines import Lines, line_up, place
from scheduler.mapping.kernels.table import LAST_INDEX, NONE, Plan, Table, is_used_up


class Search(NamedTuple):
    """The groups among which Max-min finds the next job, with upper bounds of their best completions."""

    bound_s: Floats  # (K,)
    tied: Ints  # (C + B,) room for those whose bounds are equal
    group_of: Ints  # (C + B,)
    blocks: Blocks
    groups: Groups
    least_work: LeastWork


def search_of(table: Table, lines: Lines, ready_s: Floats) -> Search:
    """For mappings with ready times of at least `ready_s` (m,); each needs a copy of `groups`."""
    least_work = least_work_of(table, ready_s)
    blocks = blocks_of(table, least_work.by_work)
    groups = grouped(table, blocks, lines, ready_s)
    n_job_classes, n_machine_classes = table.by_job_class_s.shape
    n = n_job_classes + len(blocks.row_s)
    return allocate(Search, n_machine_classes, n, n, blocks=blocks, groups=groups, least_work=least_work)


@part
def largest(bound_s: Floats) -> float:
    largest_s = -np.inf
    for k in range(len(bound_s)):
        largest_s = max(largest_s, bound_s[k])
    return largest_s


@inlined
def next_class(
    table: Table, lines: Lines, search: Search, next_job: Ints, largest_s: float
) -> tuple[int, int, int]:
    """The class of the lowest job whose best completion is its bound, `largest_s`, or NONE.

    Also returns a lower bound of the lowest such job of other classes, and the number of classes evaluated.
    Classes below their bound move to their present group; a block that reaches its bound is dissolved.
    """
    bound_s, tied, group_of = search.bound_s, search.tied, search.group_of
    blocks, groups = search.blocks, search.groups
    n_tied = take_tied(lines, groups, bound_s, largest_s, tied, group_of)
    found, looks, searching = NONE, 0, True
    while n_tied > 0 and searching:
        x = 0
        for y in range(1, n_tied):
            if groups.head[tied[y]] < groups.head[tied[x]]:
                x = y
        c, is_class = tied[x], tied[x] < len(next_job)
        rest = without_lowest(groups, c)
        if is_class and is_used_up(table, next_job, c):
            completion_s = -np.inf
        elif is_class and groups.head[c] < table.jobs[next_job[c]]:  # that job is assigned already
            groups.head[c] = table.jobs[next_job[c]]
            tied[x] = meld_equals(groups, rest, c)
            continue
        else:
            completion_s = best_completion_s(table, blocks, lines, c)
            looks += 1
        tied[x] = rest
        if rest == NONE:
            n_tied -= 1
            tied[x], group_of[x] = tied[n_tied], group_of[n_tied]
        if completion_s == largest_s:
            searching = False
            if is_class:
                found = c
            else:
                enter_members(table, blocks, lines, groups, c - len(next_job))
                for k in range(len(bound_s)):
                    bound_s[k] = bound_of(lines, groups, k)
        elif completion_s > -np.inf:
            k = enter(table, blocks, lines, groups, c, completion_s)
            bound_s[k] = bound_of(lines, groups, k)
    others = LAST_INDEX
    for x in range(n_tied):
        others = min(others, groups.head[tied[x]])
        join(groups, tied[x], group_of[x], -groups.minus_s[tied[x]])
        bound_s[group_of[x]] = largest_s
    return found, others, looks


@called_from_python
def max_min(
    table: Table, lines: Lines, search: Search, plan: Plan, next_job: Ints, ready_s: Floats, limit_s: float
) -> int:
    """Map the jobs from `next_job` (C,) on, the largest best completion first.

    `ready_s` by machine index, none less than for `search_of`. Returns the number of jobs written to `plan`;
    jobs that no machine can complete are left out. Returns 0 as soon as the sum of completions is known to
    exceed `limit_s`. With C and K classes and n jobs at most n steps, each O(K) for each job class evaluated:
    few on most matrices, at worst all.
    """
    bound_s, groups = search.bound_s, search.groups
    line_up(table, lines, ready_s)
    n_offers = len(bound_s)
    for k in range(n_offers):
        lines.offers[k] = k
        bound_s[k] = bound_of(lines, groups, k)
    sum_s = 0.0
    done = looks = next_check = 0
    while True:
        if limit_s < np.inf and looks >= next_check:
            if sum_s + least_rest_s(table, search.least_work, lines, next_job) > limit_s * (1.0 + SLACK):
                return 0
            # Checks cost less than evaluations.
            next_check = looks + 1 + 4 * (len(next_job) + len(ready_s)) // len(bound_s)
        largest_s = largest(bound_s)
        if largest_s == -np.inf:
            return done
        c, until_job, looked = next_class(table, lines, search, next_job, largest_s)
        looks += looked
        if c == NONE:
            continue
        placed, k = place(table, lines, plan, done, next_job, c, largest_s, until_job, n_offers)
        sum_s += placed * largest_s
        done += placed
        if not is_used_up(table, next_job, c):
            groups.head[c] = table.jobs[next_job[c]]
            join(groups, c, k, table.by_job_class_s[c, k])
        bound_s[k] = bound_of(lines, groups, k)
