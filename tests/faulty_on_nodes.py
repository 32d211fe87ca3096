"""Schedulers for shared nodes that misbehave, each in one way: `tests.faulty_on_nodes:Class`."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod

from scheduler import rules
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Assignment, NodeSchedule, Schedule, Start
from scheduler.time_shared.loras import Loras
from scheduler.time_shared.problem import TimeSharedProblem
from tests.faulty import NeverReturns, Raises, ReturnsNothing
from tests.spoiling import ByCompletionsThatAreNotFloats, ByPlainTuples


class _Wrong(ABC):
    """FCFS, and then something is done to its schedule where it starts a job."""

    def schedule(self, problem: TimeSharedProblem) -> NodeSchedule:
        good = Loras().schedule(problem)
        return self.spoil(problem, good) if good.starts else good

    @abstractmethod
    def spoil(self, problem: TimeSharedProblem, good: NodeSchedule) -> NodeSchedule:
        """Each of them has a way of its own."""


class ForgetsAJob(_Wrong):
    def spoil(self, problem: TimeSharedProblem, good: NodeSchedule) -> NodeSchedule:
        return good._replace(starts=good.starts[1:])


class StartsAJobTwice(_Wrong):
    def spoil(self, problem: TimeSharedProblem, good: NodeSchedule) -> NodeSchedule:
        return good._replace(starts=(*good.starts, good.starts[0]))


class PlacesByPlainTuples(ByPlainTuples, _Wrong):
    pass


class CompletesAtNoFloat(ByCompletionsThatAreNotFloats, _Wrong):
    pass


class StartsAnUnknownJob(_Wrong):
    def spoil(self, problem: TimeSharedProblem, good: NodeSchedule) -> NodeSchedule:
        return good._replace(starts=(*good.starts, Start(problem.n_jobs, (0,), 1.0)))


class NamesANodeThatIsNotThere(_Wrong):
    def spoil(self, problem: TimeSharedProblem, good: NodeSchedule) -> NodeSchedule:
        first = good.starts[0]
        nodes = (*first.nodes[1:], problem.shared_nodes.n_nodes)
        return good._replace(starts=(first._replace(nodes=nodes), *good.starts[1:]))


class PutsTwoTasksOnOneNode(_Wrong):
    def spoil(self, problem: TimeSharedProblem, good: NodeSchedule) -> NodeSchedule:
        first = good.starts[0]
        nodes = (*first.nodes, first.nodes[0])
        return good._replace(starts=(first._replace(nodes=nodes), *good.starts[1:]))


class CrowdsTheFirstNodes:
    """Puts every job on the first nodes, even if they are full."""

    def schedule(self, problem: TimeSharedProblem) -> NodeSchedule:
        shared = problem.shared_nodes
        return NodeSchedule(
            [
                Start(i, tuple(range(shared.requirement(i).n_tasks)), problem.now_s + 1.0)
                for i in range(problem.n_jobs)
            ],
            {},
        )


class MapsToMachines(_Wrong):
    def spoil(self, problem: TimeSharedProblem, good: NodeSchedule) -> Schedule:  # type: ignore[override]
        return Schedule.of([Assignment(0, 0, 0.0, 1.0)])


class WritesIntoTheNodes(_Wrong):
    def spoil(self, problem: TimeSharedProblem, good: NodeSchedule) -> NodeSchedule:
        problem.shared_nodes.nodes.most_jobs[:] = 99
        return good


class StartsNoJob:
    def schedule(self, problem: TimeSharedProblem) -> NodeSchedule:
        return NodeSchedule([], dict.fromkeys(range(problem.n_jobs), "not today"))


class DecidesByChance(_Wrong):
    def spoil(self, problem: TimeSharedProblem, good: NodeSchedule) -> NodeSchedule:
        first = good.starts[0]
        guessed = first._replace(completion_s=first.completion_s + random.SystemRandom().random())
        return good._replace(starts=(guessed, *good.starts[1:]))


class CompletesBeforeItStarts(_Wrong):
    def spoil(self, problem: TimeSharedProblem, good: NodeSchedule) -> NodeSchedule:
        return good._replace(starts=[one._replace(completion_s=problem.now_s) for one in good.starts])


class LooksForMachines:
    def schedule(self, problem: MappingProblem) -> Schedule:
        return Schedule.of([], dict.fromkeys(range(len(problem.machine_etc_s)), "not today"))


BROKEN_RULE = {
    LooksForMachines: rules.RIGHT_KIND,
    CompletesBeforeItStarts: rules.COMPLETION_AS_EXPECTED,
    ForgetsAJob: rules.NO_JOB_FORGOTTEN,
    StartsAJobTwice: rules.EACH_JOB_ONCE,
    PlacesByPlainTuples: rules.RETURNS_A_SCHEDULE,
    CompletesAtNoFloat: rules.RETURNS_A_SCHEDULE,
    StartsAnUnknownJob: rules.KNOWN_JOB,
    NamesANodeThatIsNotThere: rules.KNOWN_NODES,
    PutsTwoTasksOnOneNode: rules.ONE_TASK_ON_EACH_NODE,
    CrowdsTheFirstNodes: rules.SOCIAL_CONTRACT,
    MapsToMachines: rules.RETURNS_A_SCHEDULE,
    ReturnsNothing: rules.RETURNS_A_SCHEDULE,
    Raises: rules.RAISES_NOTHING,
    NeverReturns: rules.RETURNS_IN_TIME,
    WritesIntoTheNodes: rules.PROBLEM_UNTOUCHED,
    StartsNoJob: rules.MAKES_PROGRESS,
    DecidesByChance: rules.DETERMINISTIC,
}
