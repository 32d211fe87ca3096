"""Max-min by classes."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from scheduler.core.arrays import Floats, Ints
from scheduler.core.codes import LAST_INDEX, NONE
from scheduler.mapping.core.groups import Groups
from scheduler.mapping.core.least_work import LeastWork
from scheduler.mapping.core.lines import Lines
from scheduler.model import Assignments

if TYPE_CHECKING:
    from scheduler.mapping.table import EtcTable

SLACK = 1e-9
"""A relative tolerance: more than the rounding error of the sums of completions."""


class MaxMinByClass:
    """The groups among which the next job is found."""

    def __init__(self, table: EtcTable, lines: Lines, ready_s: Floats) -> None:
        """Prepare mappings with ready times of at least `ready_s` (m,)."""
        self.lines = lines
        self.least_work = LeastWork(table, lines, ready_s)
        self.groups = Groups(table, lines, self.least_work.by_work, ready_s)

    def next_class(self) -> tuple[int, int]:
        """The class of the lowest job whose best completion is its bound, `largest_s`, or NONE; and a lower
        bound of the lowest such job of other classes.

        Classes below their bound move to their present group; a block that reaches its bound is dissolved.
        `looks` counts the classes evaluated.
        """
        lines, groups, largest_s = self.lines, self.groups, self.largest_s
        groups.take_tied(largest_s)
        found, searching = NONE, True
        while groups.n_tied > 0 and searching:
            x = 0
            for y in range(1, groups.n_tied):
                if groups.head[groups.tied[y]] < groups.head[groups.tied[x]]:
                    x = y
            c = groups.tied[x]
            is_class = c < lines.n_job_classes
            rest = groups.without_lowest(c)
            if is_class and lines.is_used_up(c):
                completion_s = -inf
            elif is_class and groups.head[c] < lines.jobs[lines.next_job[c]]:  # that job is assigned already
                groups.head[c] = lines.jobs[lines.next_job[c]]
                groups.tied[x] = groups.meld_equals(rest, c)
                continue
            else:
                completion_s = groups.best_completion_s(c)
                self.looks += 1
            groups.tied[x] = rest
            if rest == NONE:
                groups.n_tied -= 1
                groups.tied[x] = groups.tied[groups.n_tied]
                groups.group_of[x] = groups.group_of[groups.n_tied]
            if completion_s == largest_s:
                searching = False
                if is_class:
                    found = c
                else:
                    groups.enter_members(c - lines.n_job_classes)
                    for k in range(lines.n_machine_classes):
                        groups.bound_s[k] = groups.bound_of(k)
            elif completion_s > -inf:
                k = groups.enter(c, completion_s)
                groups.bound_s[k] = groups.bound_of(k)
        others = LAST_INDEX
        for x in range(groups.n_tied):
            others = min(others, groups.head[groups.tied[x]])
        groups.put_tied_back(largest_s)
        return found, others

    def map(self, next_job: Ints, ready_s: Floats, limit_s: float) -> Assignments:
        """Map the jobs from `next_job` (C,) on, the largest best completion first.

        `ready_s` by machine index, none less than at first. Jobs that no machine can complete are left out.
        Assigns nothing as soon as the sum of completions is known to exceed `limit_s`. With C and K classes
        and n jobs at most n steps, each O(K) for each job class evaluated: few on most matrices.
        """
        lines, groups = self.lines, self.groups
        lines.begin(next_job, ready_s)
        groups.restart()
        n = lines.n_machine_classes
        for k in range(n):
            lines.offers[k] = k
        sum_s, next_check = 0.0, 0
        self.looks = 0
        while True:
            if limit_s < inf and self.looks >= next_check:
                if sum_s + self.least_work.least_rest_s(lines) > limit_s * (1.0 + SLACK):
                    lines.done = 0
                    return lines.assignments()
                # Checks cost less than evaluations.
                next_check = self.looks + 1 + 4 * (lines.n_job_classes + lines.n_machines) // max(n, 1)
            self.largest_s = -inf
            for k in range(n):
                self.largest_s = max(self.largest_s, groups.bound_s[k])
            if self.largest_s == -inf:
                return lines.assignments()
            c, until_job = self.next_class()
            if c == NONE:
                continue
            done = lines.done
            k = lines.place(c, self.largest_s, until_job, n)
            sum_s += (lines.done - done) * self.largest_s
            if not lines.is_used_up(c):
                groups.head[c] = lines.jobs[lines.next_job[c]]
                groups.join(c, k, lines.by_job_class_s[c, k])
            groups.bound_s[k] = groups.bound_of(k)
