"""What a scheduler is asked: some waiting jobs, and one view of the resources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scheduler.etc import EtcMatrix
from scheduler.model import Job, JobId, RunId, read_only

if TYPE_CHECKING:  # what is compiled for shared nodes is loaded where nodes are shared
    from scheduler.free_nodes.problem import FreeNodes
    from scheduler.time_shared.system import SharedNodes


class Running(NamedTuple):
    """A run that goes on now on `machines`, which are resource `resource`; `completion_s` is belief."""

    job: Job
    resource: int
    machines: Sequence[int]
    completion_s: float


@dataclass(frozen=True)
class ReadyTimes:
    """When each resource becomes ready, by belief: never before now, infinite = not available.

    `machine_s` (m,) per machine; `members` the available machines of each cluster. A cluster is ready when
    all of these are, and has no members while its policy rejects parallel execution.
    """

    machine_s: NDArray[np.float64]
    members: tuple[tuple[int, ...], ...] = ()

    @property
    def n_machines(self) -> int:
        return len(self.machine_s)

    @cached_property
    def cluster_s(self) -> NDArray[np.float64]:
        """(clusters,)"""
        return read_only([self.machine_s[list(m)].max() if m else np.inf for m in self.members])

    def machines_of(self, j: int) -> tuple[int, ...]:
        """The machines that resource j stands for."""
        return (j,) if j < self.n_machines else self.members[j - self.n_machines]


class NoSuchView(LookupError):
    """A scheduler looks at nodes as they are not; `needs` says which view it wanted."""

    def __init__(self, needs: str, message: str) -> None:
        super().__init__(message)
        self.needs = needs


class SchedulingProblem:
    """A read-only face of the manager's state, for one queue in one round.

    * `now_s`: the time of the round.
    * `jobs` (n,): the jobs to schedule, in queue order (arrival, then id).
    * `etc`: expected seconds of each job on each resource.
    * `running`: the runs that go on now, for schedulers that choose victims themselves.
    * `ready_times`: the resources as a mapping algorithm sees them. Made when first asked for.
    * `shared_nodes`: the nodes as LoRaS sees them, where jobs share nodes; there `etc` has no resources.
    * `free_nodes`: the nodes as they are seen where each job has its own; there `etc` has none either.
    * `n_places`: how many resources there are to choose from, or nodes.
    """

    def __init__(
        self,
        now_s: float,
        jobs: Sequence[Job],
        etc: EtcMatrix | None,
        read_ready_times: Callable[[frozenset[RunId]], ReadyTimes],
        running: Mapping[RunId, Running] | None = None,
        shared_nodes: SharedNodes | None = None,
        free_nodes: FreeNodes | None = None,
    ) -> None:
        self.now_s = now_s
        self.jobs = jobs
        self.n_jobs = len(jobs)
        self.running: Mapping[RunId, Running] = running if running is not None else {}
        self._etc = etc
        self._read_ready_times = read_ready_times
        self._shared_nodes = shared_nodes
        self._free_nodes = free_nodes
        nodes = shared_nodes if free_nodes is None else free_nodes
        self.n_places = self.etc.n_resources if nodes is None else nodes.n_nodes

    @classmethod
    def on_shared_nodes(
        cls,
        now_s: float,
        jobs: Sequence[Job],
        shared_nodes: SharedNodes,
        running: Mapping[RunId, Running] | None = None,
    ) -> SchedulingProblem:
        """Which of the jobs start now, and on which nodes?"""
        return cls(now_s, jobs, None, _no_machines, running, shared_nodes)

    @classmethod
    def on_free_nodes(
        cls, now_s: float, free_nodes: FreeNodes, running: Mapping[RunId, Running] | None = None
    ) -> SchedulingProblem:
        """Which of the rigid jobs that wait start now, and on which nodes?"""
        return cls(now_s, free_nodes.waiting, None, _no_machines, running, None, free_nodes)

    @classmethod
    def from_matrix(
        cls,
        etc_s: ArrayLike,
        ready_s: ArrayLike | None = None,
        members: Iterable[Iterable[int]] = (),
        now_s: float = 0.0,
    ) -> SchedulingProblem:
        """A problem by itself: `etc_s` (n, m + clusters), `ready_s` (m,), machines of each cluster."""
        return cls.from_etc(EtcMatrix.from_dense(etc_s), ready_s, members, now_s)

    @classmethod
    def from_etc(
        cls,
        etc: EtcMatrix,
        ready_s: ArrayLike | None = None,
        members: Iterable[Iterable[int]] = (),
        now_s: float = 0.0,
    ) -> SchedulingProblem:
        """A problem by itself, whose times are given by class; the rest as for `from_matrix`."""
        clusters = tuple(tuple(machines) for machines in members)
        n_machines = etc.n_resources - len(clusters)
        ready = read_only(np.full(n_machines, now_s) if ready_s is None else ready_s)
        if ready.shape != (n_machines,):
            raise ValueError(f"{ready.shape[0]} ready times were given for {n_machines} machines")
        times = ReadyTimes(read_only(np.maximum(ready, now_s)), clusters)
        return cls(now_s, _JobsByClass(etc.job_class_of, now_s), etc, lambda _: times)

    @cached_property
    def etc(self) -> EtcMatrix:
        """Expected seconds of each job on each resource."""
        if self._etc is not None:
            return self._etc
        alike = np.broadcast_to(np.int64(0), (self.n_jobs,))
        return EtcMatrix(np.empty((1, 0)), alike, np.empty(0, dtype=np.int64))

    @property
    def shared_nodes(self) -> SharedNodes:
        """Raises NoSuchView where nodes are not shared."""
        if self._shared_nodes is None:
            raise NoSuchView(
                "shared_nodes",
                "this scheduler starts jobs on shared nodes, and was asked to map jobs to machines; "
                "use it where an experiment has shared nodes",
            )
        return self._shared_nodes

    @property
    def has_shared_nodes(self) -> bool:
        return self._shared_nodes is not None

    @property
    def free_nodes(self) -> FreeNodes:
        """Raises NoSuchView where jobs do not have nodes of their own."""
        if self._free_nodes is None:
            raise NoSuchView(
                "free_nodes",
                "this scheduler gives rigid jobs nodes of their own; use it to replay a log (`sil replay`)",
            )
        return self._free_nodes

    @cached_property
    def ready_times(self) -> ReadyTimes:
        return self._read_ready_times(frozenset())

    def ready_times_without(self, victims: Iterable[RunId]) -> ReadyTimes:
        """Ready times as they would be if the running runs `victims` were preempted now."""
        return self._read_ready_times(frozenset(victims))

    @property
    def machine_etc_s(self) -> NDArray[np.float64]:
        """Expected seconds on single machines, (n, m): a new array."""
        return self.etc.dense()[:, : self.ready_times.n_machines]

    @property
    def cluster_etc_s(self) -> NDArray[np.float64]:
        """Expected seconds in parallel on each cluster, (n, clusters): a new array."""
        return self.etc.dense()[:, self.ready_times.n_machines :]


_NO_MACHINES = ReadyTimes(read_only([]))


def _no_machines(_: frozenset[RunId]) -> ReadyTimes:
    return _NO_MACHINES


class LazyJobs(Sequence[Job], ABC):
    """Jobs that are looked up or made when asked for, since there may be very many."""

    @abstractmethod
    def job_at(self, i: int) -> Job:
        """The job in place i, from 0 on."""

    @overload
    def __getitem__(self, i: int) -> Job: ...

    @overload
    def __getitem__(self, i: slice) -> Sequence[Job]: ...

    def __getitem__(self, i: int | slice) -> Job | Sequence[Job]:
        if isinstance(i, int) and 0 <= i < len(self):
            return self.job_at(i)
        places = range(len(self))[i]
        return self.job_at(places) if isinstance(places, int) else [self.job_at(k) for k in places]


class _JobsByClass(LazyJobs):
    """Jobs of which nothing is known but their class."""

    def __init__(self, class_of: NDArray[np.int64], arrival_s: float) -> None:
        self._class_of = class_of
        self._arrival_s = arrival_s

    def __len__(self) -> int:
        return len(self._class_of)

    def job_at(self, i: int) -> Job:
        return Job(JobId(i), f"class-{self._class_of[i]}", self._arrival_s)
