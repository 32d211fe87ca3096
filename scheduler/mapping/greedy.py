"""Min-min, Max-min, and SJS, which takes the better of the two."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from scheduler.compiled import Floats, Ints, copied
from scheduler.mapping.kernels.lines import room_for_lines
from scheduler.mapping.kernels.max_min import Search, max_min, search_of
from scheduler.mapping.kernels.min_min import Heads, min_min, room_for_heads
from scheduler.mapping.kernels.table import ByClass, Plan
from scheduler.mapping.placer import mapped
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Assignments, Schedule


class MinMin:
    """Min-min: the job with the smallest best completion time first, to that machine.

    Ties go to the lowest job index, then the lowest machine index. Source: Ibarra and Kim 1977 (algorithm D);
    Collins and George 2001, section 3. Costs as `scheduler.mapping.kernels.min_min`.
    """

    def schedule(self, problem: MappingProblem) -> Schedule:
        by_class = ByClass.of(problem)
        return mapped(problem, Greedy(by_class).min_min(by_class.all_jobs, by_class.ready_s))


class MaxMin:
    """Max-min: the job with the largest best completion time first, to that machine.

    The paper's name for it is "min-max". Ties go to the lowest job index, then the lowest machine index.
    Source: Ibarra and Kim 1977 (algorithm E); Collins and George 2001, section 3. Costs as
    `scheduler.mapping.kernels.max_min`.
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
        self._table = by_class.table
        self._at_start_s = by_class.ready_s
        self._lines = room_for_lines(by_class.table)

    def min_min(self, next_job: Ints, ready_s: Floats) -> Assignments:
        plan = self._empty_plan()
        n = min_min(self._table, self._lines, self._heads, plan, next_job.copy(), ready_s)
        return _assignments(plan, n)

    def max_min(self, next_job: Ints, ready_s: Floats, limit_s: float = np.inf) -> Assignments:
        """Assigns nothing if the sum of completions would exceed `limit_s`."""
        plan = self._empty_plan()
        search = self._search._replace(groups=copied(self._search.groups))
        n = max_min(self._table, self._lines, search, plan, next_job.copy(), ready_s, limit_s)
        return _assignments(plan, n)

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

    def _empty_plan(self) -> Plan:
        n, m = len(self._table.jobs), len(self._table.machines)
        room = self._lines.members
        return Plan(np.empty(n, dtype=np.int64), room[m:], np.empty(n), np.empty(n))

    @cached_property
    def _heads(self) -> Heads:
        return room_for_heads(self._table)

    @cached_property
    def _search(self) -> Search:
        return search_of(self._table, self._lines, self._at_start_s)


def _assignments(plan: Plan, n: int) -> Assignments:
    return Assignments(plan.jobs[:n], plan.machines[:n].copy(), plan.start_s[:n], plan.completion_s[:n])
