"""Max-min by classes, and a lower bound of the sum of completions, from the work of jobs and the speed of
machines."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from scheduler.core.arrays import Floats, Ints, floats
from scheduler.core.codes import LAST_INDEX, NONE
from scheduler.mapping.core.groups import Groups
from scheduler.mapping.core.lines import Lines
from scheduler.model import Assignments

if TYPE_CHECKING:
    from scheduler.mapping.table import EtcTable


N_STEPS = 64
"""Number of steps between the first and the last ready time, to which ready times are rounded down."""


class LeastWork:
    """The `slowness` of machine classes, and the least work of each job class: time / slowness.

    Any positive slowness gives a valid bound. A good one is the mean, over the job classes that can run
    there, of the time in proportion to the shortest of the class. `by_work` are the job classes in ascending
    order of their work, those that can run nowhere left out; `least_s` the shortest times on any machine.
    """

    def __init__(self, table: EtcTable, lines: Lines, ready_s: Floats) -> None:
        """Three passes over the table. `ready_s` by machine index; machines that are never ready do no
        work."""
        n_job_classes, n_machine_classes = table.by_job_class_s.shape
        work_s = np.empty(n_job_classes)
        self.slowness, self.work_s, self.least_s = floats(n_machine_classes), work_s, np.empty(n_job_classes)
        first_s = np.minimum.reduceat(ready_s[table.machines], table.first_machine[:n_machine_classes])
        self.measure(lines, np.where(np.isfinite(first_s), 0.0, inf))
        self.by_work = np.argsort(work_s)[: int(np.isfinite(work_s).sum())].copy()
        self.in_order = self.by_work
        self.speed_at = np.empty(N_STEPS + 1)

    def measure(self, lines: Lines, never_s: Floats) -> None:
        """`never_s` (K,) is infinite where no machine will ever be ready, and zero else."""
        times_s, n = lines.by_job_class_s, lines.n_machine_classes
        for c in range(lines.n_job_classes):
            least_s = inf
            for k in range(n):
                least_s = min(least_s, times_s[c, k] + never_s[k])
            self.least_s[c] = least_s
            for k in range(n):
                if least_s > 0.0 and times_s[c, k] + never_s[k] < inf:
                    self.slowness[k] += times_s[c, k] / least_s
        for k in range(n):
            self.slowness[k] = self.slowness[k] / lines.n_job_classes if self.slowness[k] > 0.0 else 1.0
        for c in range(lines.n_job_classes):
            work_s = inf
            for k in range(n):
                work_s = min(work_s, (times_s[c, k] + never_s[k]) / self.slowness[k])
            self.work_s[c] = work_s

    def least_rest_s(self, lines: Lines) -> float:
        """A lower bound of the sum of completions of the jobs left. O(C + number of runs).

        The larger of two bounds. When x jobs are done, the machines ready by then have done at least the x
        least amounts of work; and no job is done before the first ready time plus its least time.
        """
        first_s, last_s = inf, -inf
        for k in range(lines.n_machine_classes):
            if lines.front_s[k] < inf:
                first_s = min(first_s, lines.front_s[k])
                last_s = max(last_s, lines.front_s[k])
                base = lines.first_machine[k]
                for x in range(base, base + lines.n_runs[k]):
                    last_s = max(last_s, lines.run_s[x])
        if first_s == inf:
            return 0.0
        step_s = max((last_s - first_s) / N_STEPS, 1e-300)
        self.add_speeds(lines, first_s, step_s)
        step, now_s, speed, room_s = 0, first_s, self.speed_at[0], 0.0
        rest_s, alone_s = 0.0, 0.0
        for y in range(self.in_order.shape[0]):
            c = self.in_order[y]
            n, work_s = lines.first_job[c + 1] - lines.next_job[c], self.work_s[c]
            alone_s += n * (first_s + self.least_s[c])
            while n > 0:
                # All jobs so far are done at `now_s`; q more before other machines become ready.
                q = n
                if step < N_STEPS:
                    room_s = max(0.0, (first_s + (step + 1) * step_s - now_s) * speed)
                    if work_s * n > room_s:
                        q = int(room_s / work_s)
                took_s = work_s / speed
                rest_s += q * now_s + took_s * q * (q + 1) / 2
                now_s += q * took_s
                n -= q
                if n > 0:  # more machines become ready while the next job runs
                    begun_s = max(0.0, room_s - q * work_s)
                    step += 1
                    speed += self.speed_at[step]
                    while step < N_STEPS and work_s - begun_s > step_s * speed:
                        begun_s += step_s * speed
                        step += 1
                        speed += self.speed_at[step]
                    now_s = first_s + step * step_s + (work_s - begun_s) / speed
                    rest_s += now_s
                    n -= 1
        return max(rest_s, alone_s)

    def add_speeds(self, lines: Lines, first_s: float, step_s: float) -> None:
        """The speed that becomes available at each step."""
        for step in range(N_STEPS + 1):
            self.speed_at[step] = 0.0
        for k in range(lines.n_machine_classes):
            if lines.front_s[k] < inf:
                speed = 1.0 / self.slowness[k]
                at = min(N_STEPS, int((lines.front_s[k] - first_s) / step_s))
                self.speed_at[at] += speed * (lines.front_end[k] - lines.front_at[k])
                base = lines.first_machine[k]
                for x in range(base, base + lines.n_runs[k]):
                    at = min(N_STEPS, int((lines.run_s[x] - first_s) / step_s))
                    self.speed_at[at] += speed * lines.run_length[x]


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
