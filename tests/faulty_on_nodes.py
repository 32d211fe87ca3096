"""Schedulers for shared nodes that misbehave, each in one way: `tests.faulty_on_nodes:Class`."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod

from scheduler.mapping import rules
from scheduler.model import Assignment, Placement, Schedule
from scheduler.problem import SchedulingProblem
from scheduler.time_shared import rules as node_rules
from scheduler.time_shared.scheduler import Loras
from tests.faulty import NeverReturns, Raises, ReturnsNothing
from tests.spoiling import ByNoNumber, ByPlainTuples


class _Wrong(ABC):
    """FCFS, and then something is done to its schedule where it starts a job."""

    def schedule(self, problem: SchedulingProblem) -> Schedule:
        good = Loras().schedule(problem)
        return self.spoil(problem, good) if good.placements else good

    @abstractmethod
    def spoil(self, problem: SchedulingProblem, good: Schedule) -> Schedule:
        """Each of them has a way of its own."""


class ForgetsAJob(_Wrong):
    def spoil(self, problem: SchedulingProblem, good: Schedule) -> Schedule:
        return good._replace(placements=good.placements[1:])


class StartsAJobTwice(_Wrong):
    def spoil(self, problem: SchedulingProblem, good: Schedule) -> Schedule:
        return good._replace(placements=(*good.placements, good.placements[0]))


class PlacesByPlainTuples(ByPlainTuples, _Wrong):
    pass


class BelievesInNoNumber(ByNoNumber, _Wrong):
    pass


class StartsAnUnknownJob(_Wrong):
    def spoil(self, problem: SchedulingProblem, good: Schedule) -> Schedule:
        return good._replace(placements=(*good.placements, Placement(problem.n_jobs, (0,), 1.0)))


class NamesANodeThatIsNotThere(_Wrong):
    def spoil(self, problem: SchedulingProblem, good: Schedule) -> Schedule:
        first = good.placements[0]
        nodes = (*first.nodes[1:], problem.shared_nodes.n_nodes)
        return good._replace(placements=(first._replace(nodes=nodes), *good.placements[1:]))


class PutsTwoTasksOnOneNode(_Wrong):
    def spoil(self, problem: SchedulingProblem, good: Schedule) -> Schedule:
        first = good.placements[0]
        nodes = (*first.nodes, first.nodes[0])
        return good._replace(placements=(first._replace(nodes=nodes), *good.placements[1:]))


class CrowdsTheFirstNodes:
    """Puts every job on the first nodes, whoever is there."""

    def schedule(self, problem: SchedulingProblem) -> Schedule:
        shared = problem.shared_nodes
        return Schedule.placing(
            [
                Placement(i, tuple(range(shared.requirement(i).n_tasks)), problem.now_s + 1.0)
                for i in range(problem.n_jobs)
            ],
            {},
        )


class MapsToMachines(_Wrong):
    def spoil(self, problem: SchedulingProblem, good: Schedule) -> Schedule:
        return Schedule.of([Assignment(0, 0, 0.0, 1.0)])


class WritesIntoTheNodes(_Wrong):
    def spoil(self, problem: SchedulingProblem, good: Schedule) -> Schedule:
        problem.shared_nodes.nodes.most_jobs[:] = 99
        return good


class StartsNobody:
    def schedule(self, problem: SchedulingProblem) -> Schedule:
        return Schedule.placing([], dict.fromkeys(range(problem.n_jobs), "not today"))


class DecidesByChance(_Wrong):
    def spoil(self, problem: SchedulingProblem, good: Schedule) -> Schedule:
        first = good.placements[0]
        guessed = first._replace(completion_s=first.completion_s + random.SystemRandom().random())
        return good._replace(placements=(guessed, *good.placements[1:]))


BROKEN_RULE = {
    ForgetsAJob: rules.NO_JOB_FORGOTTEN,
    StartsAJobTwice: rules.EACH_JOB_ONCE,
    PlacesByPlainTuples: rules.RETURNS_A_SCHEDULE,
    BelievesInNoNumber: rules.RETURNS_A_SCHEDULE,
    StartsAnUnknownJob: rules.KNOWN_JOB,
    NamesANodeThatIsNotThere: rules.KNOWN_NODES,
    PutsTwoTasksOnOneNode: rules.ONE_TASK_ON_EACH_NODE,
    CrowdsTheFirstNodes: node_rules.SOCIAL_CONTRACT,
    MapsToMachines: rules.RETURNS_A_SCHEDULE,
    ReturnsNothing: rules.RETURNS_A_SCHEDULE,
    Raises: rules.RAISES_NOTHING,
    NeverReturns: rules.RETURNS_IN_TIME,
    WritesIntoTheNodes: rules.PROBLEM_UNTOUCHED,
    StartsNobody: rules.MAKES_PROGRESS,
    DecidesByChance: rules.DETERMINISTIC,
}
