"""The mapping problem: waiting jobs, expected times, and when each machine becomes ready."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scheduler.mapping.etc import EtcMatrix, ReadyTimes, read_only
from scheduler.mapping.rules import first_violation
from scheduler.model import Job, JobId, RunId, Schedule
from scheduler.ports import Scheduler
from scheduler.problem import LazyJobs, Running, SchedulingProblem
from scheduler.rules import Kind, Violation


class MappingProblem(SchedulingProblem):
    """On which machine or cluster does each job run, and in which order? The answer is a `Schedule`.

    * `etc`: expected seconds of each job on each resource.
    * `ready_times`: when each resource becomes ready. Computed on first access.
    * `running`: for schedulers that choose runs to preempt.

    See `SchedulingProblem` for `now_s`, `jobs`, `n_jobs` and `n_places`.
    """

    kind = Kind.MAPPING

    def __init__(
        self,
        now_s: float,
        jobs: Sequence[Job],
        etc: EtcMatrix,
        read_ready_times: Callable[[frozenset[RunId]], ReadyTimes],
        running: Mapping[RunId, Running] | None = None,
    ) -> None:
        super().__init__(now_s, jobs, running, etc.n_resources)
        self.etc = etc
        self._read_ready_times = read_ready_times

    @classmethod
    def from_matrix(
        cls,
        etc_s: ArrayLike,
        ready_s: ArrayLike | None = None,
        members: Iterable[Iterable[int]] = (),
        now_s: float = 0.0,
    ) -> MappingProblem:
        """A standalone problem: `etc_s` (n, m + clusters), `ready_s` (m,), machines of each cluster."""
        return cls.from_etc(EtcMatrix.from_dense(etc_s), ready_s, members, now_s)

    @classmethod
    def from_etc(
        cls,
        etc: EtcMatrix,
        ready_s: ArrayLike | None = None,
        members: Iterable[Iterable[int]] = (),
        now_s: float = 0.0,
    ) -> MappingProblem:
        """A standalone problem with expected times by class; otherwise as `from_matrix`."""
        clusters = tuple(tuple(machines) for machines in members)
        n_machines = etc.n_resources - len(clusters)
        ready = read_only(np.full(n_machines, now_s) if ready_s is None else ready_s)
        if ready.shape != (n_machines,):
            raise ValueError(f"{ready.shape[0]} ready times were given for {n_machines} machines")
        times = ReadyTimes(read_only(np.maximum(ready, now_s)), clusters)
        return cls(now_s, _JobsByClass(etc.job_class_of, now_s), etc, lambda _: times)

    @cached_property
    def ready_times(self) -> ReadyTimes:
        return self._read_ready_times(frozenset())

    def ready_times_without(self, victims: Iterable[RunId]) -> ReadyTimes:
        """Ready times as they would be if the running runs `victims` were preempted now."""
        victims = frozenset(victims)
        return self._read_ready_times(victims) if victims else self.ready_times

    def arrays(self) -> Mapping[str, NDArray[np.float64]]:
        found = {"etc": self.etc.by_class_s}
        if "ready_times" in self.__dict__:  # they have been computed
            found["ready_times"] = self.ready_times.machine_s
        return found

    def violation(self, answer: object) -> Violation | None:
        return first_violation(self, self.etc, self.ready_times_without, answer)

    @property
    def machine_etc_s(self) -> NDArray[np.float64]:
        """Expected seconds on single machines, (n, m): a new array."""
        return self.etc.dense()[:, : self.ready_times.n_machines]

    @property
    def cluster_etc_s(self) -> NDArray[np.float64]:
        """Expected seconds in parallel on each cluster, (n, clusters): a new array."""
        return self.etc.dense()[:, self.ready_times.n_machines :]


MappingScheduler = Scheduler[MappingProblem, Schedule]


class _JobsByClass(LazyJobs):
    """Jobs of which only the class is given."""

    def __init__(self, class_of: NDArray[np.int64], arrival_s: float) -> None:
        self._class_of = class_of
        self._arrival_s = arrival_s

    def __len__(self) -> int:
        return len(self._class_of)

    def job_at(self, i: int) -> Job:
        return Job(JobId(i), f"class-{self._class_of[i]}", self._arrival_s)
