"""The interface of a resource manager, and the ports that one is given.

`MappingManager` and `NodeManager` in `scheduler.managers` implement it. To test a resource manager,
derive it from `ResourceManager` and name the class like a scheduler, `module:Class`. Its constructor takes
its ports (`OnMachines`, `OnFreeNodes` or `OnSharedNodes`) and the parameters of its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from scheduler.mapping.etc import EtcMatrix
from scheduler.messages import counted
from scheduler.model import ExecutionRecord, Job, JobId, Site
from scheduler.node_request import Node, Partition
from scheduler.node_resources.topology import Topology
from scheduler.ports import (
    METHOD_OF,
    Clock,
    Dispatcher,
    Monitor,
    NodeMonitor,
    Notice,
    RunEnded,
    RunLost,
    RuntimeEstimator,
    arguments_of,
)
from scheduler.priority.policy import SitePolicy
from scheduler.time_shared.social_contract import Requirement, SocialContract

NOT_YET_CONSIDERED = "no round has looked at it yet"
"""The wait reason of a job before its first round."""


class Experience(Protocol):
    """Run-time estimates from past runs."""

    def estimate(self, jobs: Sequence[Job], members: Sequence[int]) -> EtcMatrix:
        """Expected seconds of `jobs` on each resource; `members` counts the machines of each cluster."""

    def record(self, record: ExecutionRecord) -> None:
        """Add one completed run."""


class Characterisation(Protocol):
    """What jobs require, as measured in isolation."""

    def requirement(self, job: Job) -> Requirement | None:
        """The requirement of a job; None if jobs like it have not been measured."""


@dataclass(frozen=True)
class OnMachines:
    """Ports for a site of different machines, each for one run at a time."""

    clock: Clock
    dispatcher: Dispatcher
    site: Site
    monitor: Monitor
    experience: Experience

    @property
    def n_places(self) -> int:
        """Number of machines, without clusters."""
        return self.site.n_machines


@dataclass(frozen=True)
class OnFreeNodes:
    """Ports for `n_nodes` nodes: identical ones, each for one job at a time, or `nodes` with cores, memory
    and GPUs, of which jobs request parts."""

    clock: Clock
    dispatcher: Dispatcher
    n_nodes: int
    run_times: RuntimeEstimator
    monitor: NodeMonitor | None = None
    """Reports nodes that fail; None: nodes do not fail."""
    nodes: tuple[Node, ...] = ()
    """What each node has; empty if they are identical."""
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    """The partitions by name; those of nodes that are not listed have no limits."""
    site_resources: Mapping[str, int] = field(default_factory=dict)
    """The amounts of resources of the whole site, like software licences, by name."""
    policy: SitePolicy | None = None
    """The order of service and the limits of jobs, on nodes with cores; None: by arrival, without limits."""
    topology: Topology | None = None
    """The switches or blocks that decide which nodes a job may have together; None: any."""

    @property
    def n_places(self) -> int:
        return self.n_nodes


@dataclass(frozen=True)
class OnSharedNodes:
    """Ports for time-shared nodes, used by several jobs within the social contract and by local users.

    `memory_mb` is per node; `characterisation` has each job's requirement as measured in isolation; `monitor`
    reports the local load and which nodes are up.
    """

    clock: Clock
    dispatcher: Dispatcher
    memory_mb: tuple[float, ...]
    contract: SocialContract
    characterisation: Characterisation
    monitor: NodeMonitor

    @property
    def n_places(self) -> int:
        return len(self.memory_mb)


Ports = OnMachines | OnFreeNodes | OnSharedNodes


class Manager(ABC):
    """Processes notices, which may arrive late, and gives orders in its rounds."""

    wants_round: bool = False
    """Set it when there is something to decide; clear it in `run_round`."""

    wakes_at_s: float | None = None
    """When to hand over `TimePassed`, whatever else happens; None = never."""

    @abstractmethod
    def handle(self, notice: Notice) -> str | None:
        """Process a notice. Returns the reason for refusing the job of `JobArrived`, otherwise None."""

    @abstractmethod
    def run_round(self) -> None:
        """Decide and give orders."""

    def why_waiting(self) -> Mapping[JobId, str]:
        """The wait reason of each waiting job, as a sentence; reported if nothing ever happens again."""
        return {}

    def dismiss(self) -> bool:
        """Give up the jobs that wait for what will never happen. Returns whether there were any."""
        return False


class ResourceManager(Manager):
    """The base class of resource managers, with a method for each kind of notice (`scheduler.ports`).

    Orders go to the dispatcher: `DispatchOrder(run, job, resource, machines, expected_s)`, each with a unique
    run id, by which later notices refer to it. On machines, `resource` is an index into `site.resource_names`
    and `machines` are its machines; on nodes, `resource` is ON_NODES and `machines` are the nodes.
    """

    def handle(self, notice: Notice) -> str | None:
        """Call the method for this kind of notice."""
        refusal: str | None = getattr(self, METHOD_OF[type(notice)])(*arguments_of(notice))
        return refusal

    @abstractmethod
    def on_job_arrived(self, job: Job) -> str | None:
        """A job is submitted. Return None, or the reason for refusing it, as a sentence."""

    @abstractmethod
    def on_run_ended(self, ended: RunEnded) -> None:
        """A run ended by itself: its job is over, complete or failed."""

    def _ignored(self, *details: Any, **more: Any) -> None:
        """What a manager does not need to know: it defines the methods of other notices."""

    on_run_preempted = on_run_lost = on_run_released = _ignored
    on_order_received = on_order_refused = on_answer = _ignored
    on_monitor_news = on_time_passed = on_job_acted_on = _ignored
    on_drain_changed = on_reservation_made = _ignored


class ManagerDecorator(Manager):
    """Passes everything on to another manager. Subclasses set `_manager`, and override what differs."""

    _manager: Manager

    @property
    def wants_round(self) -> bool:  # type: ignore[override]
        return self._manager.wants_round

    @property
    def wakes_at_s(self) -> float | None:  # type: ignore[override]
        return self._manager.wakes_at_s

    def handle(self, notice: Notice) -> str | None:
        return self._manager.handle(notice)

    def run_round(self) -> None:
        self._manager.run_round()

    def why_waiting(self) -> Mapping[JobId, str]:
        return self._manager.why_waiting()

    def dismiss(self) -> bool:
        return self._manager.dismiss()


class RequeueLimit(ManagerDecorator):
    """Passes everything on to a resource manager, except the failure of a run whose job has already been
    requeued `most` times after earlier ones (Slurm's MaxBatchRequeue). Such a job is given up, and the
    manager gets the notice that the run ended as one that `failed`.

    Runs that were lost because something was down do not count.
    """

    def __init__(self, manager: Manager, most: int, give_up: Callable[[JobId, str], None]) -> None:
        """`give_up` gets the job and the reason."""
        self._manager = manager
        self._most = most
        self._give_up = give_up
        self._n_failed: Counter[JobId] = Counter()

    def handle(self, notice: Notice) -> str | None:
        if isinstance(notice, RunLost) and (job := notice.failed_job) is not None:
            self._n_failed[job] += 1
            if self._n_failed[job] > self._most:
                n, most = self._n_failed.pop(job), self._most
                why = f"it failed {counted(n, 'time')}, and is requeued {counted(most, 'time')} at most"
                self._give_up(job, why)
                notice = RunEnded(notice.run, notice.lost_s, failed=True)
        return self._manager.handle(notice)
