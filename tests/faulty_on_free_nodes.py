"""Schedulers for free nodes that misbehave, each in one way: `tests.faulty_on_free_nodes:Class`."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from decimal import Decimal
from typing import Any

from scheduler import rules
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Assignment, NodeSchedule, RunId, Schedule, Start
from scheduler.node_set import NodeSet
from tests.faulty import NeverReturns, Raises, ReturnsNothing
from tests.hostile import good_answer


class Wrong(ABC):
    """FCFS, and then something is done to its schedule where it starts a job; also for time-shared nodes."""

    def schedule(self, problem: Any) -> NodeSchedule:
        good = good_answer(problem)
        return self.spoil(problem, good) if good.starts else good

    @abstractmethod
    def spoil(self, problem: Any, good: NodeSchedule) -> NodeSchedule:
        """Each of them has a way of its own."""


class ForgetsAJob(Wrong):
    def spoil(self, problem: FreeNodesProblem, good: NodeSchedule) -> NodeSchedule:
        return good._replace(starts=good.starts[1:])


class StartsAJobTwice(Wrong):
    def spoil(self, problem: FreeNodesProblem, good: NodeSchedule) -> NodeSchedule:
        return good._replace(starts=(*good.starts, good.starts[0]))


class StartsAJobThatItLeavesWaiting(Wrong):
    def spoil(self, problem: FreeNodesProblem, good: NodeSchedule) -> NodeSchedule:
        return good._replace(wait_reasons=dict.fromkeys(range(problem.n_jobs), "not today"))


class PlacesByPlainTuples(Wrong):
    def spoil(self, problem: Any, good: NodeSchedule) -> NodeSchedule:
        return good._replace(starts=tuple(map(tuple, good.starts)))  # type: ignore[arg-type]


class CompletesAtNoFloat(Wrong):
    def spoil(self, problem: Any, good: NodeSchedule) -> NodeSchedule:
        placements = [one._replace(completion_s=Decimal(one.completion_s)) for one in good.starts]  # type: ignore[arg-type]
        return good._replace(starts=tuple(placements))


class StartsAnUnknownJob(Wrong):
    def spoil(self, problem: FreeNodesProblem, good: NodeSchedule) -> NodeSchedule:
        return good._replace(starts=(*good.starts, Start(problem.n_jobs, NodeSet.of([0]), 1.0)))


class NamesANodeThatIsNotThere(Wrong):
    def spoil(self, problem: FreeNodesProblem, good: NodeSchedule) -> NodeSchedule:
        first = good.starts[0]
        nodes = NodeSet.of([*first.nodes[1:], problem.n_places])
        return good._replace(starts=(first._replace(nodes=nodes), *good.starts[1:]))


class GivesOneNodeTooFew(Wrong):
    def spoil(self, problem: FreeNodesProblem, good: NodeSchedule) -> NodeSchedule:
        first = good.starts[0]
        return good._replace(starts=(first._replace(nodes=NodeSet.of(first.nodes[1:])), *good.starts[1:]))


class PutsTwoTasksOnOneNode(Wrong):
    def spoil(self, problem: FreeNodesProblem, good: NodeSchedule) -> NodeSchedule:
        first = good.starts[0]
        nodes = (*first.nodes, first.nodes[0])
        return good._replace(starts=(first._replace(nodes=nodes), *good.starts[1:]))


class _OnTheFirstNodes:
    """Starts some jobs on the nodes from 0 on, even if they are occupied."""

    def start(self, problem: FreeNodesProblem, jobs: list[int]) -> NodeSchedule:
        starts = [Start(i, NodeSet.of(range(problem.jobs[i].n_tasks)), problem.now_s + 1.0) for i in jobs]
        waiting = dict.fromkeys(set(range(problem.n_jobs)) - set(jobs), "not yet")
        return NodeSchedule(starts, waiting)


class StartsOnBusyNodes(_OnTheFirstNodes):
    def schedule(self, problem: FreeNodesProblem) -> NodeSchedule:
        return self.start(problem, [0])


class GivesANodeToTwoJobs:
    """Each job that fits gets the free nodes of the lowest numbers, even if another job gets them too."""

    def schedule(self, problem: FreeNodesProblem) -> NodeSchedule:
        free, now_s = problem.free_nodes.free, problem.now_s
        starts = [
            Start(i, free.lowest(job.n_tasks), now_s + problem.free_nodes.waiting.estimate_s(job.id))
            for i, job in enumerate(problem.jobs)
            if job.n_tasks <= free.n
        ]
        placed = {start.job for start in starts}
        waiting = dict.fromkeys(set(range(problem.n_jobs)) - placed, "too few nodes are free")
        return NodeSchedule(starts, waiting)


class MapsToMachines(Wrong):
    def spoil(self, problem: FreeNodesProblem, good: NodeSchedule) -> Schedule:  # type: ignore[override]
        return Schedule.of([Assignment(0, 0, 0.0, 1.0)])


class TakesTheNodesItself(Wrong):
    def spoil(self, problem: FreeNodesProblem, good: NodeSchedule) -> NodeSchedule:
        for node in good.starts[0].nodes:
            problem.free_nodes.set_available(node, False)
        return good


class StartsAJobItself(Wrong):
    def spoil(self, problem: FreeNodesProblem, good: NodeSchedule) -> NodeSchedule:
        i, nodes, completion_s, _ = good.starts[0]
        job = problem.jobs[i].id
        problem.free_nodes.start(RunId(1_000_000), job, Start(i, nodes, completion_s), problem.now_s)
        return good


class RemovesAJobFromTheQueue(StartsAJobItself):
    def spoil(self, problem: FreeNodesProblem, good: NodeSchedule) -> NodeSchedule:
        super().spoil(problem, good)
        problem.free_nodes.end(RunId(1_000_000))
        return good


class StartsNoJob:
    def schedule(self, problem: FreeNodesProblem) -> NodeSchedule:
        return NodeSchedule([], dict.fromkeys(range(problem.n_jobs), "not today"))


class DecidesByChance(Wrong):
    def spoil(self, problem: FreeNodesProblem, good: NodeSchedule) -> NodeSchedule:
        first = good.starts[0]
        guessed = first._replace(completion_s=first.completion_s + random.SystemRandom().random())
        return good._replace(starts=(guessed, *good.starts[1:]))


class CompletesBeforeItStarts(Wrong):
    def spoil(self, problem: FreeNodesProblem, good: NodeSchedule) -> NodeSchedule:
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
    StartsAJobThatItLeavesWaiting: rules.EACH_JOB_ONCE,
    StartsAnUnknownJob: rules.KNOWN_JOB,
    NamesANodeThatIsNotThere: rules.KNOWN_NODES,
    GivesOneNodeTooFew: rules.ONE_TASK_ON_EACH_NODE,
    PutsTwoTasksOnOneNode: rules.ONE_TASK_ON_EACH_NODE,
    StartsOnBusyNodes: rules.NODES_FREE,
    GivesANodeToTwoJobs: rules.NODES_FREE,
    MapsToMachines: rules.RETURNS_A_SCHEDULE,
    ReturnsNothing: rules.RETURNS_A_SCHEDULE,
    Raises: rules.RAISES_NOTHING,
    NeverReturns: rules.RETURNS_IN_TIME,
    TakesTheNodesItself: rules.PROBLEM_UNTOUCHED,
    RemovesAJobFromTheQueue: rules.PROBLEM_UNTOUCHED,
    StartsAJobItself: rules.PROBLEM_UNTOUCHED,
    StartsNoJob: rules.MAKES_PROGRESS,
    DecidesByChance: rules.DETERMINISTIC,
}
