"""A whole resource manager: what is told to it, and what it is given to act with.

`MappingManager` and `StartingManager` in `scheduler.managers` have this shape. To put one
of your own under test, derive from `ResourceManager` and name the class as a scheduler is named:
`module:Class`. It is made with one argument, `OnMachines`, `OnFreeNodes` or `OnSharedNodes`, and the
parameters of its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from scheduler.mapping.etc import EtcMatrix
from scheduler.model import Completion, ExecutionRecord, Job, JobId, Loss, RunId, Site
from scheduler.ports import Clock, Dispatcher, Monitor, NodeMonitor, RuntimeEstimator
from scheduler.time_shared.requirement import Requirement
from scheduler.time_shared.social_contract import SocialContract


class Experience(Protocol):
    """What past runs say about how long jobs take."""

    def estimate(self, jobs: Sequence[Job], members: Sequence[int]) -> EtcMatrix:
        """Expected seconds of `jobs` on every resource of the site, with so many members of each cluster."""
        ...

    def record(self, record: ExecutionRecord) -> None:
        """Learn from one whole run."""
        ...


class Characterisation(Protocol):
    """What jobs require, as measured in isolation."""

    def requirement(self, job: Job) -> Requirement | None:
        """None if jobs like this one have not been measured."""
        ...


@dataclass(frozen=True)
class OnMachines:
    """The ports of a resource manager for a site of unlike machines, each for one run at a time."""

    clock: Clock
    dispatcher: Dispatcher
    site: Site
    monitor: Monitor
    experience: Experience

    @property
    def n_places(self) -> int:
        """Machines, apart from clusters."""
        return self.site.n_machines


@dataclass(frozen=True)
class OnFreeNodes:
    """The ports of a resource manager for `n_nodes` alike nodes, each for one job at a time."""

    clock: Clock
    dispatcher: Dispatcher
    n_nodes: int
    run_times: RuntimeEstimator
    monitor: NodeMonitor | None = None
    """None: nodes do not fail."""

    @property
    def n_places(self) -> int:
        return self.n_nodes


@dataclass(frozen=True)
class OnSharedNodes:
    """The ports of a resource manager for nodes that jobs share with one another, within the social contract,
    and with local users; `memory_mb` is that of each node. `characterisation` tells what a job needs, as it
    was measured in isolation; the monitor tells who is there, and which nodes are up."""

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


class ResourceManager(ABC):
    """Hears by its notices what happens, and gives orders in its rounds; both may come late.

    Orders go to the dispatcher: `DispatchOrder(run, job, resource, machines, expected_s)`, each with a run id
    of its own. On machines, `resource` is an index into `site.resource_names` and `machines` those that it
    stands for; on nodes it is ON_NODES, and `machines` the nodes. What becomes of a run is told by its
    id.
    """

    wants_round: bool = False
    """To be set when there is something to decide, and cleared in `run_round`."""

    wakes_at_s: float | None = None
    """When to be told that time has passed (`on_time_passed`), whatever happens; None = not at all."""

    @abstractmethod
    def on_job_arrived(self, job: Job) -> str | None:
        """A job is submitted. Returns None, or the sentence with which it is refused."""

    @abstractmethod
    def on_run_ended(self, completion: Completion) -> None:
        """A run came to its end by itself: its job is done."""

    @abstractmethod
    def run_round(self) -> None:
        """Decide, and give orders."""

    def on_run_preempted(self, run_id: RunId) -> None:
        """A run was stopped by an order of yours: its job is not done. Not told where none is given."""
        return

    def on_run_lost(self, loss: Loss) -> None:
        """A run, or the order for it, came to nothing: its job is not done."""
        return

    def on_run_released(self, run: RunId) -> None:
        """A run ends now, and its nodes may be used; its end will be told (`--order archive`)."""
        return

    def on_monitor_news(self) -> None:
        """The monitor has something new."""
        return

    def on_time_passed(self) -> None:
        """It is `wakes_at_s`, or later; say another time, or None."""
        return

    def why_waiting(self) -> Mapping[JobId, str]:
        """A sentence for each job that waits, for who wonders why nothing happens."""
        return {}
