"""The values that a scheduler and its site exchange.

`i` is always a job (a position among the jobs of one problem), `j` always a resource: the machines of the
site first, in site order, then its clusters. All times are float seconds from the start of the experiment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple, NewType

import numpy as np
from numpy.typing import ArrayLike, NDArray

JobId = NewType("JobId", int)
RunId = NewType("RunId", int)
"""One attempt at a job. A job that is preempted and started again has two runs."""


@dataclass(frozen=True, slots=True)
class Machine:
    name: str
    machine_class: str


@dataclass(frozen=True, slots=True)
class Interconnect:
    name: str
    bandwidth_mbit_per_s: float
    latency_us: float


@dataclass(frozen=True, slots=True)
class Cluster:
    """Machines that can execute one job in parallel, while each stays available for sequential jobs.

    `least_share` is the cluster's policy: the smallest share of its members with which parallel execution
    is still accepted. With fewer members than all, parallel times grow by size / available.
    """

    name: str
    members: tuple[str, ...]
    interconnects: tuple[str, ...] = ()
    least_share: float = 1.0


@dataclass(frozen=True, slots=True)
class JobClass:
    """Jobs whose execution times on one resource are statistically alike.

    `preferred` are machine classes, the designated one first (Best Assignment reads it).
    """

    name: str
    machine_classes: tuple[str, ...]
    clusters: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()


@dataclass(frozen=True)
class Site:
    """The resources that a set of users may use indifferently, and the classes of jobs they run."""

    name: str
    machines: tuple[Machine, ...]
    clusters: tuple[Cluster, ...] = ()
    interconnects: tuple[Interconnect, ...] = ()
    job_classes: tuple[JobClass, ...] = ()

    @property
    def n_machines(self) -> int:
        return len(self.machines)

    @cached_property
    def resource_names(self) -> tuple[str, ...]:
        """Name of resource j: machines, then clusters."""
        return tuple(machine.name for machine in self.machines) + tuple(c.name for c in self.clusters)

    @cached_property
    def machine_index(self) -> Mapping[str, int]:
        return {machine.name: j for j, machine in enumerate(self.machines)}

    @cached_property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """Machine indices of each cluster, in site order."""
        return tuple(tuple(sorted(self.machine_index[name] for name in c.members)) for c in self.clusters)

    @cached_property
    def clusters_of_machine(self) -> tuple[tuple[int, ...], ...]:
        """Cluster positions that each machine is a member of."""
        memberships: list[list[int]] = [[] for _ in self.machines]
        for c, members in enumerate(self.members):
            for j in members:
                memberships[j].append(c)
        return tuple(map(tuple, memberships))


ANYONE = "anyone"
"""The user of a job of which it is not known whose it is."""


class Job(NamedTuple):
    """Something to be run once. `size` is the parameter on which the times of its class depend, if there is
    one; `submitted_by` is whoever submitted it as `user`, None = that user; `n_tasks` are its parallel tasks
    where it runs on nodes, one on each; `limit_s` is the turnaround that it asks to be promised, `estimate_s`
    how long its user says that it runs at most."""

    id: JobId
    job_class: str
    arrival_s: float
    user: str = ANYONE
    queue: str = "default"
    preferred: tuple[str, ...] = ()
    size: float | None = None
    submitted_by: str | None = None
    n_tasks: int = 1
    limit_s: float | None = None
    estimate_s: float | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """Job `job` of the problem on resource `resource`, and when that is believed to happen."""

    job: int
    resource: int
    start_s: float
    completion_s: float


@dataclass(frozen=True)
class Assignments(Sequence[Assignment]):
    """Assignments as columns: four arrays of one length, in the order in which they were decided."""

    jobs: NDArray[np.int64]
    resources: NDArray[np.int64]
    start_s: NDArray[np.float64]
    completion_s: NDArray[np.float64]

    @classmethod
    def of(cls, rows: Iterable[Assignment]) -> Assignments:
        """Columns of `rows`. Raises TypeError where a job or resource is not an integer."""
        rows = list(rows)
        return cls(
            _indices([row.job for row in rows]),
            _indices([row.resource for row in rows]),
            np.array([row.start_s for row in rows], dtype=np.float64),
            np.array([row.completion_s for row in rows], dtype=np.float64),
        )

    @classmethod
    def join(cls, parts: Sequence[Assignments]) -> Assignments:
        return cls(
            np.concatenate([part.jobs for part in parts]),
            np.concatenate([part.resources for part in parts]),
            np.concatenate([part.start_s for part in parts]),
            np.concatenate([part.completion_s for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[Assignment]:
        columns = (self.jobs, self.resources, self.start_s, self.completion_s)
        return (Assignment(*row) for row in zip(*(column.tolist() for column in columns), strict=True))

    def __getitem__(self, index: int) -> Assignment:  # type: ignore[override]
        return Assignment(
            int(self.jobs[index]),
            int(self.resources[index]),
            float(self.start_s[index]),
            float(self.completion_s[index]),
        )


def _indices(values: list[int]) -> NDArray[np.int64]:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"jobs and resources are given by index, an integer; got {value!r}")
    return np.array(values, dtype=np.int64)


NO_ASSIGNMENTS = Assignments.of(())


class Start(NamedTuple):
    """Job `job` of the problem starts now, one task on each of `nodes`; `completion_s` is an estimate."""

    job: int
    nodes: Sequence[int]
    completion_s: float


class Schedule(NamedTuple):
    """The answer to a mapping problem: data, which the resource manager turns into orders.

    `assignments` map jobs to resources. `wait_reasons` has an entry for each job that is not assigned.
    `preemptions` are running runs that the scheduler wants stopped now.
    """

    assignments: Assignments
    wait_reasons: Mapping[int, str] = MappingProxyType({})
    preemptions: tuple[RunId, ...] = ()

    @classmethod
    def of(
        cls,
        assignments: Iterable[Assignment],
        wait_reasons: Mapping[int, str] | None = None,
        preemptions: Iterable[RunId] = (),
    ) -> Schedule:
        """A schedule from single assignments, for schedulers that do not work in columns."""
        return cls(Assignments.of(assignments), wait_reasons or {}, tuple(preemptions))

    @property
    def makespan_s(self) -> float:
        return float(self.assignments.completion_s.max(initial=0.0))

    @property
    def sum_completion_s(self) -> float:
        return float(self.assignments.completion_s.sum())


class NodeSchedule(NamedTuple):
    """The answer to a problem on nodes, free or time-shared: the jobs that start now.

    `wait_reasons` has an entry for each job that does not start. The scheduler may ask to be called again no
    later than at `ask_again_s`.
    """

    starts: Sequence[Start]
    wait_reasons: Mapping[int, str] = MappingProxyType({})
    ask_again_s: float | None = None


Answer = Schedule | NodeSchedule

ON_NODES = -1
"""The resource of an order that is for a set of nodes."""


class DispatchOrder(NamedTuple):
    """Start `job` now, as run `run`, on `machines` (one, or members of a cluster).

    `expected_s` is how long it is believed to run there. On a set of nodes there is no resource: ON_NODES.
    """

    run: RunId
    job: Job
    resource: int
    machines: Sequence[int]
    expected_s: float


class Completion(NamedTuple):
    """A run came to its end by itself."""

    run: RunId
    ended_s: float


class Loss(NamedTuple):
    """A run, or the order for it, came to nothing at `lost_s`; `found_down` then were machines (by index) and
    interconnects (by name)."""

    run: RunId
    lost_s: float
    found_down: tuple[int | str, ...] = ()

    @property
    def readings(self) -> list[MachineReading]:
        """What a monitor of the machines would have told then."""
        return [MachineReading(j, False, self.lost_s) for j in self.found_down if isinstance(j, int)]


class ExecutionRecord(NamedTuple):
    """One whole run on `n_machines`, as it enters experience. Preempted and lost runs never do."""

    job: Job
    resource: int
    n_machines: int
    started_s: float
    run_time_s: float


@dataclass(frozen=True, slots=True)
class MachineReading:
    """What a monitor saw of machine `machine` at `measured_s`."""

    machine: int
    up: bool
    measured_s: float


@dataclass(frozen=True, slots=True)
class InterconnectReading:
    """What a monitor saw of interconnect `name` at `measured_s`."""

    name: str
    up: bool
    measured_s: float


@dataclass(frozen=True, slots=True)
class NodeReading:
    """What a monitor saw of the local load of node `node` at `measured_s`.

    `local_tasks` run at the moment (local MPL), `local_cpu` is the share of the CPU that they used of late;
    `user_is_there` until a minute has passed without activity.
    """

    node: int
    local_tasks: float
    local_cpu: float
    local_memory_mb: float
    user_is_there: bool
    measured_s: float


def read_only(values: ArrayLike) -> NDArray[np.float64]:
    """`values` as a float array that nobody can write through."""
    array = np.array(values, dtype=np.float64)
    array.flags.writeable = False
    return array
