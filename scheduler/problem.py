"""What a scheduler is asked, as far as all kinds have it in common, and the check of a NodeSchedule.

The problem of each kind is `scheduler.mapping.problem.MappingProblem`,
`scheduler.free_nodes.problem.FreeNodesProblem`, `scheduler.time_shared.problem.TimeSharedProblem` or, for one
job and several clusters, `scheduler.meta_scheduling.policies.ClustersProblem`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from math import inf
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

from scheduler import rules
from scheduler.messages import counted
from scheduler.model import Job, JobId, NodeSchedule, RunId, Start
from scheduler.node_set import NodeSet
from scheduler.rules import AllOthers, Kind, Violation, WrongKind

ATTRIBUTES_OF = dict.fromkeys(
    ("etc", "ready_times", "ready_times_without", "machine_etc_s", "cluster_etc_s"), Kind.MAPPING
) | {"free_nodes": Kind.FREE_NODES, "shared_nodes": Kind.TIME_SHARED, "clusters": Kind.CLUSTERS}
"""Attributes that only problems of one kind have."""


class Running(NamedTuple):
    """A run in progress on `machines`, which are resource `resource`; `completion_s` is an estimate."""

    job: Job
    resource: int
    machines: Sequence[int]
    completion_s: float


class SchedulingProblem(ABC):
    """A read-only view of a resource manager's state in one round, for one queue or, on nodes, for all.

    * `now_s`: the time of the round.
    * `jobs` (n,), `n_jobs`: the waiting jobs in queue order (queue by queue if there are several, then by
      arrival, then id).
    * `running`: the runs in progress.
    * `n_places`: the number of resources or nodes.

    Reading an attribute that only another kind of problem has raises WrongKind.
    """

    kind: ClassVar[Kind]

    def __init__(
        self, now_s: float, jobs: Sequence[Job], running: Mapping[RunId, Running] | None, n_places: int
    ) -> None:
        self.now_s = now_s
        self.jobs = jobs
        self.n_jobs = len(jobs)
        self.running: Mapping[RunId, Running] = {} if running is None else running
        self.n_places = n_places

    def arrays(self) -> Mapping[str, Any]:
        """The arrays that a scheduler reads, by name: of the size of the problem."""
        return {}

    @abstractmethod
    def violation(self, answer: object) -> Violation | None:
        """The first rule (`scheduler.rules`) that `answer` breaks as an answer to this problem, or None."""

    if not TYPE_CHECKING:  # type checkers would take it to accept any attribute

        def __getattr__(self, name: str) -> NoReturn:
            kind = ATTRIBUTES_OF.get(name, self.kind)
            if kind is self.kind:
                raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")
            raise WrongKind(name, kind, self.kind)


class LazyJobs(Sequence[Job], ABC):
    """Jobs that are looked up or made on access, since there may be very many."""

    @abstractmethod
    def job_at(self, i: int) -> Job:
        """The job in position i, counted from 0."""

    @property
    def ids(self) -> list[JobId]:
        """The ids of all jobs, in order."""
        return [job.id for job in self]

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, int) and 0 <= i < len(self):
            return self.job_at(i)
        positions = range(len(self))[i]
        return self.job_at(positions) if isinstance(positions, int) else [self.job_at(k) for k in positions]


Use = Callable[[int, Job, Start, NodeSet], Violation | None]
"""Starts job i on the nodes of its start, in addition to those started before. Returns the rule that this
breaks."""


def first_violation(
    problem: SchedulingProblem,
    answer: object,
    use: Use,
    overbooked: Callable[[], Violation | None] = lambda: None,
) -> Violation | None:
    """The first rule that `answer` breaks, or None; `overbooked` is asked for one that the starts break
    together.

    O(k log k) for the k intervals of nodes named; and O(n) for n jobs unless the reasons are `AllOthers`.
    """
    if not isinstance(answer, NodeSchedule):
        kind = "None" if answer is None else type(answer).__name__
        message = f"schedule(problem) returned {kind}, expected a NodeSchedule"
        return Violation(rules.RETURNS_A_SCHEDULE, None, message)
    again_s = answer.ask_again_s
    if again_s is not None and not (isinstance(again_s, (int, float)) and problem.now_s < again_s < inf):
        message = f"ask_again_s is {again_s} s, expected a time after now, {problem.now_s:.12g} s"
        return Violation(rules.RETURNS_A_SCHEDULE, None, message)
    starts, waiting = answer.starts, answer.wait_reasons
    try:
        all_others_wait = isinstance(waiting, AllOthers) and waiting.are_all_but(starts, problem.n_jobs)
        started: set[int] = set()
        for start in starts:
            wrong = _wrong(problem, start, started, {} if all_others_wait else waiting, use)
            if wrong is not None:
                return wrong
        if len(started) > 1 and (wrong := overbooked()) is not None:
            return wrong
        return None if all_others_wait else _forgotten(problem, started, waiting)
    except (TypeError, ValueError, AttributeError) as error:
        message = f"its starts or wait reasons have the wrong type: {error}"
        return Violation(rules.RETURNS_A_SCHEDULE, None, message)


def _forgotten(problem: SchedulingProblem, started: set[int], waiting: Mapping[int, str]) -> Violation | None:
    for i in waiting:
        if not 0 <= i < problem.n_jobs:
            return _unknown(i, problem)
    if len(started) + len(waiting) < problem.n_jobs:
        forgotten = next(i for i in range(problem.n_jobs) if i not in started and i not in waiting)
        job = problem.jobs[forgotten].id
        return Violation(rules.NO_JOB_FORGOTTEN, job, f"job {job} is neither started nor left waiting")
    return None


def _wrong(
    problem: SchedulingProblem, start: Start, started: set[int], waiting: Mapping[int, str], use: Use
) -> Violation | None:
    """The first rule that one start breaks; otherwise it is noted in `started`."""
    if type(start) is not Start:
        message = f"a start is of type {type(start).__name__}, expected a Start"
        return Violation(rules.RETURNS_A_SCHEDULE, None, message)
    i, nodes, completion_s, _, _ = start
    if type(completion_s) is not float and not isinstance(completion_s, Real):
        message = f"completion_s of a start is of type {type(completion_s).__name__}, expected a number"
        return Violation(rules.RETURNS_A_SCHEDULE, None, message)
    if not 0 <= i < problem.n_jobs:
        return _unknown(i, problem)
    job = problem.jobs[i]
    if i in started or i in waiting:
        message = f"job {job.id} is started twice, or started and left waiting"
        return Violation(rules.EACH_JOB_ONCE, job.id, message)
    if not isinstance(nodes, NodeSet):
        try:
            nodes = NodeSet.of(nodes)
        except ValueError as error:
            return Violation(rules.ONE_TASK_ON_EACH_NODE, job.id, f"job {job.id}: {error}")
    if not problem.now_s < completion_s < inf:
        message = f"job {job.id} starts at {problem.now_s:.12g} s and is to complete at {completion_s:.12g} s"
        return Violation(rules.COMPLETION_AS_EXPECTED, job.id, message)
    if not nodes.within(problem.n_places):
        message = f"job {job.id} is started on nodes {nodes}; there are nodes 0 to {problem.n_places - 1}"
        return Violation(rules.KNOWN_NODES, job.id, message)
    started.add(i)
    return use(i, job, start, nodes)


def too_few_or_many(job: Job, nodes: NodeSet, n_tasks: int) -> Violation | None:
    """The violation if a job does not get one node for each of its tasks."""
    if nodes.n == n_tasks:
        return None
    message = f"job {job.id} needs {counted(n_tasks, 'node')} and is started on {nodes.n}: {nodes}"
    return Violation(rules.ONE_TASK_ON_EACH_NODE, job.id, message)


def _unknown(i: int, problem: SchedulingProblem) -> Violation:
    message = f"job index {i} is named; the problem has jobs 0 to {problem.n_jobs - 1}"
    return Violation(rules.KNOWN_JOB, None, message)
