"""Composition: a site with the jobs of a run, what happens to it, and a scheduler under test on its host
become one simulation. A new kind of site is a class derived from `SiteModel`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from scheduler.free_nodes.runtime_estimates import RecentRuns, UserEstimates
from scheduler.managers.eligibility import Eligibility
from scheduler.managers.eligible_jobs import EligibleJobs
from scheduler.model import Job
from scheduler.node_request import Node
from scheduler.ports import RuntimeEstimator
from scheduler.resource_manager import Manager, Ports, RequeueLimit
from sil.isolation.host import HERE, Host
from sil.outcome.invariants.checker import Capacity, first_violation
from sil.runs.hosting import Supervision
from sil.runs.under_test import BatsimProgram, InProcess, SlurmProgram, UnderTest
from sil.settings.log_events import Events
from sil.settings.replays import Estimates
from sil.trace.recorder import TraceRecorder
from sil.world.events import DEFAULT, EventQueue, Order, Rounds, SimClock
from sil.world.failures import Hindrances, TimedChange, in_order_of_time
from sil.world.guard.faults import SchedulerFault
from sil.world.harness import Handlers, World
from sil.world.machines.execution import ExecutionModel
from sil.world.monitors import Distortion, SimMonitor

if TYPE_CHECKING:
    from scheduler.meta_scheduling.outlook import Outlook
    from sil.batsim.nodes import NumberedNodes
    from sil.slurm.world import SlurmWorld

PRINTED = "scheduler.log"
"""The file for the output of a scheduler in another process."""

Make = Callable[[Ports], Manager]


class RunKey(NamedTuple):
    """Identifies a run of an experiment."""

    point: int
    replication: int
    scheduler: str


class SiteModel(ABC):
    """A site of one kind, with the jobs of a run and their actual run times."""

    jobs: Iterable[Job]
    """The jobs in order of arrival, then id."""
    n_jobs: int
    nodes: tuple[Node, ...] = ()
    """The nodes that the trace describes; none for machines and identical nodes."""
    capacity: Capacity
    """The capacity that invariants assume."""
    changes: Iterable[TimedChange] = ()
    """What happens at the site by itself, in order of time."""
    events: Events | None = None
    """What is done with jobs besides submitting them; None: nothing."""
    unsuccessful: Collection[int] = ()
    """The jobs that fail by themselves at their end."""

    def limit_s(self, job: Job) -> float:
        """The time limit at which the runs of a job end; infinite if there is none."""
        return inf

    @abstractmethod
    def machines(self, events: EventQueue, hindrances: Hindrances | None) -> ExecutionModel:
        """The simulated machines."""

    @abstractmethod
    def ports(self, world: World) -> Ports:
        """The ports of a resource manager."""

    @abstractmethod
    def manager(self, ports: Any, scheduler: InProcess, asking: Supervision) -> Manager:
        """The built-in manager with a scheduler; `ports` are those of this site."""

    def outlook(self, ports: Any, scheduler: InProcess, asking: Supervision) -> Outlook:
        """Estimates and forecasts of this site for a meta-scheduler, with the scheduler that it has."""
        raise NotImplementedError  # not reached: kinds of sites without it are refused as one of several

    @property
    def handlers(self) -> Handlers:
        """The handlers of events that only this kind of site has."""
        return MappingProxyType({})

    def tables(self, run: RunKey) -> dict[str, pl.DataFrame]:
        """Other results than facts and timings, by name (`RunTables`)."""
        return {}

    def batsim_nodes(self, ports: Any) -> NumberedNodes:
        """The nodes as described to Batsim's schedulers, where its protocol can describe them."""
        raise NotImplementedError  # not reached: kinds of sites without it refuse Batsim's schedulers first

    def slurm_world(self, ports: Any, folder: Path) -> SlurmWorld:
        """What Slurm's controller manages, where it can; results go into `folder`."""
        raise NotImplementedError  # not reached: kinds of sites without it refuse Slurm's controller first


@dataclass(frozen=True)
class Disturbances:
    """What happens to a site: the order of simultaneous events, when rounds take place, outages and how they
    are reported, what is slow or fails, how often a job is requeued after failed runs (None: none fail)."""

    order: Order = field(default_factory=lambda: DEFAULT)
    rounds: Rounds = field(default_factory=Rounds)
    changes: Iterable[TimedChange] = ()
    distortions: Sequence[Distortion] = ()
    hindrances: Hindrances | None = None
    max_batch_requeue: int | None = None
    remote: Callable[[World, Ports, Make], Manager] | None = None
    """Puts a network between the machines and the manager that a function makes; None: there is none."""


class SiteRun:
    """A site, simulated or real, for one run of a scheduler under test."""

    def __init__(
        self,
        site: SiteModel,
        disturbances: Disturbances,
        on_chunk: Callable[[pl.DataFrame], None] | None = None,
        clock: SimClock | None = None,
        events: EventQueue | None = None,
    ) -> None:
        """The trace is passed on in chunks, or kept. A `clock` is given if the disturbances depend on it,
        `events` if they do not take place in simulated time."""
        clock = clock or SimClock()
        events = EventQueue(disturbances.order) if events is None else events
        acts = () if site.events is None else site.events.acts
        self.site = site
        self.disturbances = disturbances
        self.world = World(
            clock,
            events,
            TraceRecorder(on_chunk, site.nodes),
            site.machines(events, disturbances.hindrances),
            SimMonitor(clock, disturbances.distortions),
            disturbances.rounds,
            in_order_of_time(site.changes, acts, disturbances.changes),
            site.handlers,
            site.unsuccessful,
        )
        self.ports = site.ports(self.world)

    def run(self, managed: AbstractContextManager[Manager], host: Host = HERE) -> None:
        """Run all jobs under a resource manager. A fault of the scheduler ends the run; it is the last fact
        of the trace."""
        for _ in self.steps(managed, host):
            pass
        host.over()

    def steps(self, managed: AbstractContextManager[Manager], host: Host) -> Iterator[None]:
        """As `run`, with a stop before each event."""
        try:
            with managed as manager:
                yield from self.world.steps(self.site.jobs, manager)
        except SchedulerFault as fault:
            self.world.trace.note_fault(fault.time_s, fault.rule, fault.message, fault.job)
            host.faulted(fault)

    def checked(self, run: RunKey) -> pl.DataFrame:
        """The facts of a run that is over; if an invariant is violated, the last fact says how."""
        world, most = self.world, self.disturbances.max_batch_requeue
        facts = world.trace.frame(*run)
        violation = first_violation(facts, replace(self.site.capacity, max_batch_requeue=most))
        if violation is None:
            return facts
        world.trace.note_fault(world.clock.now_s, violation.rule, violation.message, violation.job)
        return world.trace.frame(*run)

    @contextmanager
    def managed(self, scheduler: UnderTest, asking: Supervision, log: Path) -> Iterator[Manager]:
        """The scheduler's own resource manager, or the built-in one with it, with the limit of requeues. What
        another process prints goes into the file `log`. Raises SchedulerFault if it does not start or end
        properly."""
        disturbances, most = self.disturbances, self.disturbances.max_batch_requeue
        if disturbances.remote is not None:
            make = partial(self._made, scheduler.require_in_process("a network"), asking)
            yield disturbances.remote(self.world, self.ports, make)
            return
        with self._unlimited(scheduler, asking, log) as manager:
            yield manager if most is None else RequeueLimit(manager, most, self.world.dispatcher.give_up)

    def _made(self, scheduler: InProcess, asking: Supervision, ports: Ports) -> Manager:
        if (events := self.site.events) is None:
            return self._with_all_jobs(scheduler, asking, ports)
        eligibility = Eligibility(events.conditions, events.arrays)
        return EligibleJobs(
            eligibility,
            ports.clock,
            self.world.dispatcher,
            lambda orders: self._with_all_jobs(scheduler, asking, replace(ports, dispatcher=orders)),
        )

    def _with_all_jobs(self, scheduler: InProcess, asking: Supervision, ports: Ports) -> Manager:
        if scheduler.has_own_queue:
            return asking.manager(scheduler, ports)
        return self.site.manager(ports, scheduler, asking)

    @contextmanager
    def _unlimited(self, scheduler: UnderTest, asking: Supervision, log: Path) -> Iterator[Manager]:
        guard, dispatcher = asking.guard, self.world.dispatcher
        match scheduler:
            case InProcess():
                yield self._made(scheduler, asking, self.ports)
            case BatsimProgram():
                from sil.batsim.manager import BatsimManager
                from sil.batsim.process import conversation

                with conversation(scheduler.program, log, guard.limit_s) as ask:
                    nodes = self.site.batsim_nodes(self.ports)
                    manager = BatsimManager(nodes, self.site.n_jobs, dispatcher, ask, guard)
                    yield manager
                    manager.end()
            case SlurmProgram():
                from sil.slurm.world import managed_by

                world = self.site.slurm_world(self.ports, log.parent)
                with managed_by(scheduler.program, world, dispatcher, guard) as slurm:
                    yield slurm


class _Clairvoyant(UserEstimates):
    """Estimates the actual run times."""

    def __init__(self, run_s: Callable[[Job], float]) -> None:
        self._run_s = run_s

    def estimate_s(self, job: Job) -> float:
        return self._run_s(job)


def run_times_by(estimates: Estimates, run_s: Callable[[Job], float]) -> RuntimeEstimator:
    """The estimator of that name; `run_s` gives actual run times."""
    match estimates:
        case Estimates.USER:
            return UserEstimates()
        case Estimates.HISTORY:
            return RecentRuns()
        case Estimates.ACTUAL:
            return _Clairvoyant(run_s)
