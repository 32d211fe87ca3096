"""The sequential job scheduler of SmartNet and of Collins and George."""

from __future__ import annotations

from scheduler.mapping.by_class import ByClass
from scheduler.mapping.greedy import Greedy
from scheduler.mapping.placer import mapped
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Schedule


class Sjs:
    """SJS: the duplex of Min-min and Max-min; whichever gives the smaller sum of expected job times.

    Every job runs on one machine. A tie goes to Min-min; inside each, ties go to the lowest job index, then
    the lowest machine index. Source: Collins and George 2001, section 3.
    """

    def schedule(self, problem: MappingProblem) -> Schedule:
        by_class = ByClass.of(problem)
        return mapped(problem, Greedy(by_class).duplex(by_class.all_jobs, by_class.ready_s))
