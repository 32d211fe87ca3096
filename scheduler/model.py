"""Values: sites, jobs, schedules, orders and readings.

`i` is always a job (a position among the jobs of one problem), `j` always a resource: the machines of the
site first, in site order, then its clusters. All times are float seconds from an arbitrary start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from types import MappingProxyType
from typing import Any, NamedTuple, NewType

import numpy as np
from numpy.typing import NDArray

from scheduler.node_request import Request

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
    """Machines that can run one job in parallel; each also runs sequential jobs.

    `least_share` is the cluster's policy: the smallest share of available members with which it accepts jobs.
    With fewer than all members, parallel times grow by size / available.
    """

    name: str
    members: tuple[str, ...]
    interconnects: tuple[str, ...] = ()
    least_share: float = 1.0


@dataclass(frozen=True, slots=True)
class JobClass:
    """Jobs whose execution times on a resource have the same distribution.

    `preferred` are machine classes, the designated one first (Best Assignment reads it).
    """

    name: str
    machine_classes: tuple[str, ...]
    clusters: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()


@dataclass(frozen=True)
class Site:
    """The resources shared by a set of users, and the job classes that they run."""

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
        clusters = list(enumerate(map(frozenset, self.members)))
        return tuple(tuple(c for c, members in clusters if j in members) for j in range(self.n_machines))


ANYONE = "anyone"
"""The user of a job whose user is not known."""


class Job(NamedTuple):
    """Work to be run once.

    * `size`: the parameter on which the run times of its class depend, if any.
    * `submitted_by`: who submitted it as `user`; None = that user.
    * `n_tasks`: on nodes, its parallel tasks, one on each node.
    * `limit_s`: the turnaround limit that it requests: its deadline, from its arrival on.
    * `estimate_s`: the user's estimate, an upper bound of its run time.
    * `request`: what it requests of nodes with cores, memory and GPUs.
    * `account`, `qos`: the account that is charged, and the quality of service, as in Slurm; empty = unknown.
    """

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
    request: Request | None = None
    account: str = ""
    qos: str = ""

    @property
    def deadline_s(self) -> float:
        """By when it is to end; infinite without a limit."""
        return inf if self.limit_s is None else self.arrival_s + self.limit_s


@dataclass(frozen=True, slots=True)
class Assignment:
    """Job `job` of the problem on resource `resource`, with its expected start and completion."""

    job: int
    resource: int
    start_s: float
    completion_s: float


@dataclass(frozen=True)
class Assignments(Sequence[Assignment]):
    """Assignments as columns: four arrays of equal length, in the order of decision."""

    jobs: NDArray[np.int64]
    resources: NDArray[np.int64]
    start_s: NDArray[np.float64]
    completion_s: NDArray[np.float64]

    @classmethod
    def of(cls, rows: Iterable[Assignment]) -> Assignments:
        """Columns of `rows`. Raises TypeError if a job or resource is not an integer."""
        rows = list(rows)
        return cls(
            _indices([row.job for row in rows]),
            _indices([row.resource for row in rows]),
            np.array([row.start_s for row in rows], dtype=np.float64),
            np.array([row.completion_s for row in rows], dtype=np.float64),
        )

    @classmethod
    def join(cls, parts: Sequence[Assignments]) -> Assignments:
        columns = zip(*(part.columns for part in parts), strict=True)
        return cls(*map(np.concatenate, columns))

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        return self.jobs, self.resources, self.start_s, self.completion_s

    def take(self, rows: NDArray[np.int64]) -> Assignments:
        """The assignments in these rows, in this order."""
        return Assignments(*(column[rows] for column in self.columns))

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[Assignment]:
        return map(Assignment, *(column.tolist() for column in self.columns))

    def __getitem__(self, index: int) -> Assignment:  # type: ignore[override]
        return Assignment(*(column[index].item() for column in self.columns))


def _indices(values: list[int]) -> NDArray[np.int64]:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"jobs and resources are given by index, an integer; got {value!r}")
    return np.array(values, dtype=np.int64)


class Share(NamedTuple):
    """What a job uses of a node: `chunks` chunks of its request, and these GPUs, by number."""

    node: int
    chunks: int
    gpus: tuple[int, ...] = ()


class Start(NamedTuple):
    """Job `job` of the problem starts now on `nodes`; `completion_s` is an estimate.

    On nodes with cores, memory and GPUs, `shares` states what it uses of each. Without them, it gets as many
    chunks as fit on each of the nodes in turn, and the first GPUs that will do. Of several partitions of the
    job, it may state in which one it starts.
    """

    job: int
    nodes: Sequence[int]
    completion_s: float
    shares: tuple[Share, ...] = ()
    partition: str = ""


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
    """The answer to a problem on nodes, free or time-shared: the jobs that start now; or to one of several
    clusters, which take the place of nodes: the job is sent there.

    `wait_reasons` has an entry for each job that does not start. The scheduler may ask to be called again no
    later than at `ask_again_s`.
    """

    starts: Sequence[Start]
    wait_reasons: Mapping[int, str] = MappingProxyType({})
    ask_again_s: float | None = None


Answer = Schedule | NodeSchedule

ON_NODES = -1
"""The resource of an order for a set of nodes."""


class DispatchOrder(NamedTuple):
    """Start `job` now, as run `run`, on `machines` (one, or members of a cluster).

    `expected_s` is its expected run time there. On nodes, `resource` is ON_NODES; on nodes with cores, memory
    and GPUs, `shares` states what the run uses of each.
    """

    run: RunId
    job: Job
    resource: int
    machines: Sequence[int]
    expected_s: float
    shares: tuple[Share, ...] = ()


class ExecutionRecord(NamedTuple):
    """One completed run on `n_machines`, for the history. Preempted and failed runs are not recorded."""

    job: Job
    resource: int
    n_machines: int
    started_s: float
    run_time_s: float


@dataclass(frozen=True, slots=True)
class MachineReading:
    """A monitor's reading of a machine at `measured_s`."""

    machine: int
    up: bool
    measured_s: float


@dataclass(frozen=True, slots=True)
class InterconnectReading:
    """A monitor's reading of an interconnect at `measured_s`."""

    name: str
    up: bool
    measured_s: float


@dataclass(frozen=True, slots=True)
class NodeReading:
    """A monitor's reading of the local load of a node at `measured_s`.

    `local_tasks` are running now (local MPL); `local_cpu` is their recent share of the CPU; `user_is_there`
    until a minute has passed without activity.
    """

    node: int
    local_tasks: float
    local_cpu: float
    local_memory_mb: float
    user_is_there: bool
    measured_s: float
