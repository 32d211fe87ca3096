"""Schedulers for time-shared nodes that misbehave, each in one way: `tests.faulty_on_nodes:Class`."""

from __future__ import annotations

from scheduler import rules
from scheduler.model import NodeSchedule, Start
from scheduler.time_shared.problem import TimeSharedProblem
from tests.faulty import NeverReturns, Raises, ReturnsNothing
from tests.faulty_on_free_nodes import (
    CompletesAtNoFloat,
    CompletesBeforeItStarts,
    DecidesByChance,
    ForgetsAJob,
    LooksForMachines,
    MapsToMachines,
    NamesANodeThatIsNotThere,
    PlacesByPlainTuples,
    PutsTwoTasksOnOneNode,
    StartsAJobTwice,
    StartsAnUnknownJob,
    StartsNoJob,
    Wrong,
)


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


class WritesIntoTheNodes(Wrong):
    def spoil(self, problem: TimeSharedProblem, good: NodeSchedule) -> NodeSchedule:
        problem.shared_nodes.nodes.most_jobs[:] = 99
        return good


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
