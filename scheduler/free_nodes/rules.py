"""The rules of a schedule for free nodes, checked before any of it is carried out."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import inf

from scheduler.mapping.rules import (
    COMPLETION_AS_EXPECTED,
    EACH_JOB_ONCE,
    KNOWN_JOB,
    KNOWN_NODES,
    NO_JOB_FORGOTTEN,
    NODES_FREE,
    ONE_TASK_ON_EACH_NODE,
    RETURNS_A_SCHEDULE,
    Violation,
    what_is_no_placement,
    what_is_not_placing,
)
from scheduler.model import Placement, Schedule
from scheduler.node_set import NodeSet
from scheduler.problem import SchedulingProblem
from scheduler.wait_reasons import AllOthers


def first_violation_on_free_nodes(problem: SchedulingProblem, schedule: object) -> Violation | None:
    """The first rule that `schedule` breaks, or None.

    O(k log k) for the k intervals of nodes that it names; and O(n) for n jobs where it says of each why it
    waits (not of `AllOthers`).
    """
    malformed = what_is_not_placing(schedule, problem.now_s)
    if malformed is not None:
        return Violation(RETURNS_A_SCHEDULE, None, malformed)
    assert isinstance(schedule, Schedule)
    try:
        return _first_violation(problem, schedule)
    except (TypeError, ValueError, AttributeError) as error:
        message = f"its placements or reasons are not of the kind that a Schedule has: {error}"
        return Violation(RETURNS_A_SCHEDULE, None, message)


def _first_violation(problem: SchedulingProblem, schedule: Schedule) -> Violation | None:
    placements, left = schedule.placements, schedule.wait_reasons
    all_others_wait = isinstance(left, AllOthers) and left.are_all_but(placements, problem.n_jobs)
    placed: dict[int, NodeSet] = {}
    for placement in placements:
        wrong = _wrong(problem, placement, placed, {} if all_others_wait else left)
        if wrong is not None:
            return wrong
    if len(placements) > 1:
        twice = _given_twice(problem, placed)
        if twice is not None:
            return twice
    if all_others_wait:
        return None
    for i in left:
        if not 0 <= i < problem.n_jobs:
            return _unknown(i, problem)
    if len(placements) + len(left) < problem.n_jobs:
        told = placed.keys() | left.keys()
        forgotten = next(i for i in range(problem.n_jobs) if i not in told)
        job = problem.jobs[forgotten].id
        return Violation(NO_JOB_FORGOTTEN, job, f"job {job} was neither placed nor left waiting")
    return None


def _unknown(i: int, problem: SchedulingProblem) -> Violation:
    message = f"job index {i} was named; the problem has jobs 0 to {problem.n_jobs - 1}"
    return Violation(KNOWN_JOB, None, message)


def _wrong(
    problem: SchedulingProblem, placement: Placement, placed: dict[int, NodeSet], left: Mapping[int, str]
) -> Violation | None:
    """What is wrong with a placement by itself; if nothing, it is noted in `placed`."""
    view = problem.free_nodes
    i, nodes, completion_s = placement
    if type(placement) is not Placement or type(completion_s) is not float:
        malformed = what_is_no_placement(placement)
        if malformed is not None:
            return Violation(RETURNS_A_SCHEDULE, None, malformed)
    if not 0 <= i < problem.n_jobs:
        return _unknown(i, problem)
    job = problem.jobs[i]
    if i in placed or i in left:
        message = f"job {job.id} was placed twice, or placed and left waiting"
        return Violation(EACH_JOB_ONCE, job.id, message)
    if not isinstance(nodes, NodeSet):
        try:
            nodes = NodeSet.of(nodes)
        except ValueError as error:
            return Violation(ONE_TASK_ON_EACH_NODE, job.id, f"job {job.id}: {error}")
    if not problem.now_s < completion_s < inf:
        starts = f"it starts at {problem.now_s:.12g} s"
        message = f"job {job.id} is believed to end at {completion_s:.12g} s; {starts}"
        return Violation(COMPLETION_AS_EXPECTED, job.id, message)
    if nodes.n == job.n_tasks and view.free.has(nodes):
        placed[i] = nodes
        return None
    if not nodes.within(view.n_nodes):
        message = f"job {job.id} was placed on nodes {nodes}; there are nodes 0 to {view.n_nodes - 1}"
        return Violation(KNOWN_NODES, job.id, message)
    if nodes.n != job.n_tasks:
        message = f"job {job.id} asks for {job.n_tasks} nodes and was placed on {nodes.n}: {nodes}"
        return Violation(ONE_TASK_ON_EACH_NODE, job.id, message)
    message = f"job {job.id} was placed on nodes {nodes}, of which some are not free"
    return Violation(NODES_FREE, job.id, message)


def _given_twice(problem: SchedulingProblem, placed: dict[int, NodeSet]) -> Violation | None:
    """A node that two jobs of one schedule get."""
    held = sorted((first, last, i) for i, nodes in placed.items() for first, last in nodes.intervals)
    for (_, last, one), (first, _, other) in pairwise(held):
        if first <= last:
            job, before = problem.jobs[other].id, problem.jobs[one].id
            message = f"jobs {before} and {job} were both placed on node {first}"
            return Violation(NODES_FREE, job, message)
    return None
