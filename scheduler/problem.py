"""What a scheduler is asked: the part that the problems of all kinds have in common.

The problem of each kind is `scheduler.mapping.problem.MappingProblem`,
`scheduler.free_nodes.problem.FreeNodesProblem`, or `scheduler.time_shared.problem.TimeSharedProblem`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

from scheduler.kinds import Kind, WrongKind
from scheduler.model import Job, JobId, RunId
from scheduler.rules import Violation

ATTRIBUTES_OF = dict.fromkeys(
    ("etc", "ready_times", "ready_times_without", "machine_etc_s", "cluster_etc_s"), Kind.MAPPING
) | {"free_nodes": Kind.FREE_NODES, "shared_nodes": Kind.TIME_SHARED}
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
        """Of all jobs, in order."""
        return [job.id for job in self]

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, int) and 0 <= i < len(self):
            return self.job_at(i)
        positions = range(len(self))[i]
        return self.job_at(positions) if isinstance(positions, int) else [self.job_at(k) for k in positions]
