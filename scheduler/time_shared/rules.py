"""The rules of a schedule for shared nodes, checked before any of it is carried out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from scheduler.mapping.rules import (
    EACH_JOB_ONCE,
    KNOWN_JOB,
    KNOWN_NODES,
    NO_JOB_FORGOTTEN,
    ONE_TASK_ON_EACH_NODE,
    RETURNS_A_SCHEDULE,
    Violation,
    what_is_no_placement,
    what_is_not_placing,
)
from scheduler.model import Placement, Schedule
from scheduler.problem import SchedulingProblem
from scheduler.time_shared.kernels.tables import SLACK, Nodes
from scheduler.time_shared.requirement import Requirement
from scheduler.time_shared.system import SharedNodes

SOCIAL_CONTRACT = "social-contract"

RULES_ON_NODES = {
    SOCIAL_CONTRACT: "no placement exceeds the parallel MPL, memory or CPU that a node allows",
}
"""Beside those of every schedule (`scheduler.mapping.rules`)."""


def first_violation_on_nodes(problem: SchedulingProblem, schedule: object) -> Violation | None:
    """The first rule that `schedule` breaks, or None. O(tasks that are placed)."""
    try:
        return next(_violations(problem, schedule), None)
    except (TypeError, ValueError, AttributeError) as error:
        message = f"its placements or reasons are not of the kind that a Schedule has: {error}"
        return Violation(RETURNS_A_SCHEDULE, None, message)


def _violations(problem: SchedulingProblem, schedule: object) -> Iterator[Violation]:
    malformed = what_is_not_placing(schedule, problem.now_s)
    if malformed is not None:
        yield Violation(RETURNS_A_SCHEDULE, None, malformed)
        return
    assert isinstance(schedule, Schedule)
    named: set[int] = set()
    more: dict[int, list[Requirement]] = defaultdict(list)
    for placement in schedule.placements:
        malformed = what_is_no_placement(placement)
        if malformed is not None:
            yield Violation(RETURNS_A_SCHEDULE, None, malformed)
            return
        i = placement.job
        if not 0 <= i < problem.n_jobs:
            message = f"job index {i} was placed; the problem has jobs 0 to {problem.n_jobs - 1}"
            yield Violation(KNOWN_JOB, None, message)
            return
        job = problem.jobs[i].id
        if i in named or i in schedule.wait_reasons:
            yield Violation(EACH_JOB_ONCE, job, f"job {job} was placed twice, or placed and left waiting")
            return
        named.add(i)
        wrong = _wrong_nodes(problem.shared_nodes, problem, placement)
        if wrong is not None:
            yield wrong
            return
        for n in placement.nodes:
            more[n].append(problem.shared_nodes.requirement(i))
            exceeded = _exceeded(problem.shared_nodes.nodes, n, more[n])
            if exceeded is not None:
                message = f"job {job} was placed on node {n}, which would then carry {exceeded}"
                yield Violation(SOCIAL_CONTRACT, job, message)
    if len(named) + len(schedule.wait_reasons) < problem.n_jobs:
        forgotten = min(set(range(problem.n_jobs)) - named - set(schedule.wait_reasons))
        job = problem.jobs[forgotten].id
        yield Violation(NO_JOB_FORGOTTEN, job, f"job {job} was neither placed nor left waiting")


def _exceeded(nodes: Nodes, n: int, more: list[Requirement]) -> str | None:
    """The limit of node n that is exceeded with more tasks on it."""
    jobs = int(nodes.n_jobs[n]) + len(more)
    if jobs > nodes.most_jobs[n]:
        return f"{jobs} parallel tasks; {nodes.most_jobs[n]} are allowed"
    memory_mb = float(nodes.memory_mb[n]) + sum(requirement.memory_mb for requirement in more)
    if memory_mb > nodes.most_memory_mb[n] + 2 * SLACK:
        return f"{memory_mb:g} MB of parallel memory; {nodes.most_memory_mb[n]:g} MB are allowed"
    cpu = float(nodes.cpu[n]) + sum(requirement.cpu for requirement in more)
    if cpu > nodes.most_cpu[n] + 2 * SLACK:
        return f"CPU requirements of {cpu:.2f}; {nodes.most_cpu[n]:g} are allowed"
    return None


def _wrong_nodes(shared: SharedNodes, problem: SchedulingProblem, placement: Placement) -> Violation | None:
    job, tasks = problem.jobs[placement.job].id, shared.requirement(placement.job).n_tasks
    for n in placement.nodes:
        if not 0 <= n < shared.n_nodes:
            message = f"job {job} was placed on node {n}; there are nodes 0 to {shared.n_nodes - 1}"
            return Violation(KNOWN_NODES, job, message)
    if len(set(placement.nodes)) != tasks or len(placement.nodes) != tasks:
        message = f"job {job} has {tasks} tasks and was placed on nodes {list(placement.nodes)}"
        return Violation(ONE_TASK_ON_EACH_NODE, job, message)
    return None
