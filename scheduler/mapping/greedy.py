"""Greedy mapping of all waiting jobs: Min-min, Max-min, SJS, the better of the two, and Sufferage."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from scheduler.core.arrays import Floats, Ints
from scheduler.mapping.core.lines import Lines
from scheduler.mapping.core.max_min import MaxMinByClass
from scheduler.mapping.core.min_min import MinMinByClass
from scheduler.mapping.placer import mapped
from scheduler.mapping.problem import MappingProblem
from scheduler.mapping.table import ByClass
from scheduler.model import Assignment, Assignments, Schedule


class MinMin:
    """Min-min: the job with the smallest best completion time first, to that machine.

    Ties go to the lowest job index, then the lowest machine index. Source: Ibarra and Kim 1977 (algorithm D);
    Collins and George 2001, section 3. Costs as `scheduler.mapping.core.min_min`.
    """

    def schedule(self, problem: MappingProblem) -> Schedule:
        by_class = ByClass.of(problem)
        return mapped(problem, Greedy(by_class).min_min(by_class.all_jobs, by_class.ready_s))


class MaxMin:
    """Max-min: the job with the largest best completion time first, to that machine.

    The paper's name for it is "min-max". Ties go to the lowest job index, then the lowest machine index.
    Source: Ibarra and Kim 1977 (algorithm E); Collins and George 2001, section 3. Costs as
    `scheduler.mapping.core.max_min`.
    """

    def schedule(self, problem: MappingProblem) -> Schedule:
        by_class = ByClass.of(problem)
        return mapped(problem, Greedy(by_class).max_min(by_class.all_jobs, by_class.ready_s))


class Sjs:
    """SJS: Min-min or Max-min, whichever has the smaller total flow time.

    Every job runs on one machine. A tie goes to Min-min; inside each, ties go to the lowest job index, then
    the lowest machine index. Source: Collins and George 2001, section 3.
    """

    def schedule(self, problem: MappingProblem) -> Schedule:
        by_class = ByClass.of(problem)
        return mapped(problem, Greedy(by_class).duplex(by_class.all_jobs, by_class.ready_s))


class Greedy:
    """The greedy mappings of one problem's jobs to machines, again and again as ready times grow.

    `next_job` (C,) has the position in `table.jobs` of the first job to map of each class; `ready_s` (m,) is
    never less than the problem's, and infinite only where the problem's is. The order of jobs on each machine
    class is computed once.
    """

    def __init__(self, by_class: ByClass) -> None:
        self._by_class = by_class
        self._lines = Lines(by_class.table)

    def min_min(self, next_job: Ints, ready_s: Floats) -> Assignments:
        return self._min_min.map(next_job, ready_s)

    def max_min(self, next_job: Ints, ready_s: Floats, limit_s: float = np.inf) -> Assignments:
        """Map by Max-min. Assigns nothing if the sum of completions would exceed `limit_s`."""
        return self._max_min.map(next_job, ready_s, limit_s)

    def duplex(self, next_job: Ints, ready_s: Floats, limit_s: float = np.inf) -> Assignments:
        """The better of Min-min and Max-min by sum of completions; a tie goes to Min-min.

        Job times are completions less arrivals, and arrivals are equal in both. Max-min is not considered if
        its sum exceeds `limit_s`.
        """
        first = self.min_min(next_job, ready_s)
        first_s = float(first.completion_s.sum())
        second = self.max_min(next_job, ready_s, min(first_s, limit_s))
        better = len(second) == len(first) and float(second.completion_s.sum()) < first_s
        return second if better else first

    @cached_property
    def _min_min(self) -> MinMinByClass:
        return MinMinByClass(self._by_class.table, self._lines)

    @cached_property
    def _max_min(self) -> MaxMinByClass:
        return MaxMinByClass(self._by_class.table, self._lines, self._by_class.ready_s)


class Sufferage:
    """Sufferage: the job that loses most without its best machine first.

    A job's sufferage is its second-best completion less its best; each step commits one job, the one that
    suffers most, to its best machine. A job that only one machine can run suffers infinitely. Ties go to the
    lowest job index, then the lowest machine index. O(n^2 m) at worst.
    Source: Maheswaran et al. 1999, in the variant that commits one job per step.
    """

    def schedule(self, problem: MappingProblem) -> Schedule:
        etc_s = problem.machine_etc_s
        n, m = etc_s.shape
        if n == 0 or m == 0:
            return mapped(problem, Assignments.of([]))
        ready_s = problem.ready_times.machine_s.copy()
        best, second = np.full(n, -1), np.full(n, -1)
        best_s, sufferage_s = np.empty(n), np.empty(n)

        def evaluate(jobs: Ints) -> None:
            completion_s = ready_s + etc_s[jobs]
            rows = np.arange(len(jobs))
            best[jobs] = completion_s.argmin(axis=1)
            best_s[jobs] = completion_s[rows, best[jobs]]
            completion_s[rows, best[jobs]] = np.inf
            second[jobs] = completion_s.argmin(axis=1)
            second_s = completion_s[rows, second[jobs]]
            possible = np.isfinite(best_s[jobs])
            sufferage_s[jobs[possible]] = second_s[possible] - best_s[jobs[possible]]
            sufferage_s[jobs[~possible]] = -np.inf

        evaluate(np.arange(n))
        steps: list[Assignment] = []
        while np.isfinite(best_s[i := int(sufferage_s.argmax())]):
            j = int(best[i])
            steps.append(Assignment(i, j, float(ready_s[j]), float(best_s[i])))
            ready_s[j] = best_s[i]
            best[i] = second[i] = -1
            best_s[i], sufferage_s[i] = np.inf, -np.inf
            # Ready times only grow: a job changes only with its best or second-best machine.
            evaluate(np.flatnonzero((best == j) | (second == j)))
        return mapped(problem, Assignments.of(steps))
