"""Schedulers for free nodes that misbehave, each in one way: `tests.faulty_on_free_nodes:Class`."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from scheduler import rules
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Assignment, NodeSchedule, RunId, Schedule, Start
from scheduler.node_set import NodeSet
from tests import faulty
from tests.faulty import NeverReturns, Raises, spoilt


def first_start(change: Callable[[Any, Start], Start]) -> Callable[[Any, Any], NodeSchedule]:
    return lambda problem, good: good._replace(starts=(change(problem, good.starts[0]), *good.starts[1:]))


def _with_some_at_decimals(problem: Any, good: NodeSchedule) -> NodeSchedule:
    starts = [one._replace(completion_s=Decimal(one.completion_s)) for one in good.starts]  # type: ignore[arg-type]
    return good._replace(starts=tuple(starts))


def _taking_the_nodes(problem: FreeNodesProblem, good: NodeSchedule) -> NodeSchedule:
    for node in good.starts[0].nodes:
        problem.free_nodes.set_available(node, False)
    return good


def _starting_a_job(problem: FreeNodesProblem, good: NodeSchedule) -> NodeSchedule:
    start = good.starts[0]._replace(shares=())
    problem.free_nodes.start(RunId(1_000_000), problem.jobs[start.job].id, start, problem.now_s)
    return good


def _removing_a_job(problem: FreeNodesProblem, good: NodeSchedule) -> NodeSchedule:
    _starting_a_job(problem, good)
    problem.free_nodes.end(RunId(1_000_000), problem.now_s)
    return good


ALSO_ON_SHARED_NODES: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "CompletesBeforeItStarts": (
        rules.COMPLETION_AS_EXPECTED,
        lambda p, good: good._replace(starts=[one._replace(completion_s=p.now_s) for one in good.starts]),
    ),
    "ForgetsAJob": (rules.NO_JOB_FORGOTTEN, lambda p, good: good._replace(starts=good.starts[1:])),
    "StartsAJobTwice": (
        rules.EACH_JOB_ONCE,
        lambda p, good: good._replace(starts=(*good.starts, good.starts[0])),
    ),
    "PlacesByPlainTuples": (
        rules.RETURNS_A_SCHEDULE,
        lambda p, good: good._replace(starts=tuple(map(tuple, good.starts))),
    ),
    "CompletesAtNoFloat": (rules.RETURNS_A_SCHEDULE, _with_some_at_decimals),
    "StartsAnUnknownJob": (
        rules.KNOWN_JOB,
        lambda p, good: good._replace(starts=(*good.starts, Start(p.n_jobs, NodeSet.of([0]), 1.0))),
    ),
    "NamesANodeThatIsNotThere": (
        rules.KNOWN_NODES,
        first_start(lambda p, first: first._replace(nodes=NodeSet.of([*first.nodes[1:], p.n_places]))),
    ),
    "PutsTwoTasksOnOneNode": (
        rules.ONE_TASK_ON_EACH_NODE,
        first_start(lambda p, first: first._replace(nodes=(*first.nodes, first.nodes[0]))),
    ),
    "MapsToMachines": (rules.RETURNS_A_SCHEDULE, lambda p, good: Schedule.of([Assignment(0, 0, 0.0, 1.0)])),
    "DecidesByChance": (
        rules.DETERMINISTIC,
        first_start(
            lambda p, first: first._replace(completion_s=first.completion_s + random.SystemRandom().random())
        ),
    ),
}
"""By name: the rule that the scheduler breaks, and what it does to a good schedule that starts a job."""

SPOILT: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    **ALSO_ON_SHARED_NODES,
    "StartsAJobThatItLeavesWaiting": (
        rules.EACH_JOB_ONCE,
        lambda p, good: good._replace(wait_reasons=dict.fromkeys(range(p.n_jobs), "not today")),
    ),
    "GivesOneNodeTooFew": (
        rules.ONE_TASK_ON_EACH_NODE,
        first_start(lambda p, first: first._replace(nodes=NodeSet.of(first.nodes[1:]))),
    ),
    "TakesTheNodesItself": (rules.PROBLEM_UNTOUCHED, _taking_the_nodes),
    "StartsAJobItself": (rules.PROBLEM_UNTOUCHED, _starting_a_job),
    "RemovesAJobFromTheQueue": (rules.PROBLEM_UNTOUCHED, _removing_a_job),
}


class StartsOnBusyNodes:
    """Starts the first job on the nodes from 0 on, even if they are occupied."""

    def schedule(self, problem: FreeNodesProblem) -> NodeSchedule:
        start = Start(0, NodeSet.of(range(problem.jobs[0].n_tasks)), problem.now_s + 1.0)
        return NodeSchedule([start], dict.fromkeys(range(1, problem.n_jobs), "not yet"))


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


class StartsNoJob:
    def schedule(self, problem: FreeNodesProblem) -> NodeSchedule:
        return NodeSchedule([], dict.fromkeys(range(problem.n_jobs), "not today"))


class LooksForMachines:
    def schedule(self, problem: MappingProblem) -> Schedule:
        return Schedule.of([], dict.fromkeys(range(len(problem.machine_etc_s)), "not today"))


_SPOILT = spoilt(__name__, {name: spoil for name, (_, spoil) in SPOILT.items()})
ReturnsNothing = faulty._SPOILT["ReturnsNothing"]

ON_ANY_NODES: dict[type, str] = {
    ReturnsNothing: rules.RETURNS_A_SCHEDULE,
    Raises: rules.RAISES_NOTHING,
    NeverReturns: rules.RETURNS_IN_TIME,
    StartsNoJob: rules.MAKES_PROGRESS,
}

BROKEN_RULE: dict[type, str] = {
    **{kind: SPOILT[name][0] for name, kind in _SPOILT.items()},
    LooksForMachines: rules.RIGHT_KIND,
    StartsOnBusyNodes: rules.NODES_FREE,
    GivesANodeToTwoJobs: rules.NODES_FREE,
    **ON_ANY_NODES,
}
globals().update({kind.__name__: kind for kind in BROKEN_RULE})
