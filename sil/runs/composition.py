"""The composition root: a scheduler under test, with what it manages, in a world."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import polars as pl

from scheduler import UserError
from scheduler.managers.decorators import RequeueLimit
from scheduler.model import Job
from scheduler.ports import Clock, Scheduler
from scheduler.registry import SchedulerSpec
from scheduler.resource_manager import Ports, ResourceManager
from sil.isolation.host import HERE, Host, ThisProcess
from sil.outcome.invariants.breach import Capacity
from sil.outcome.invariants.checker import first_breach
from sil.runs.under_test import BatsimProgram, InProcess, SlurmProgram, UnderTest
from sil.trace.recorder import TraceRecorder
from sil.workers.executor import Died, Interrupted, tried
from sil.world import SHOW_TRACEBACKS
from sil.world.dispatcher import SimDispatcher
from sil.world.guard.faults import CannotBeJudged, SchedulerFault, print_traceback, traceback_of
from sil.world.guard.scheduler import CheckedScheduler, Guard, GuardedScheduler
from sil.world.harness import World

if TYPE_CHECKING:
    from sil.batsim.nodes import Nodes
    from sil.slurm.world import SlurmWorld

Found = TypeVar("Found")

PRINTED = "scheduler.log"
"""The output of a scheduler in another process."""
WHAT_IF = "asked by a predictor about {now_s:.12g} s: "


class RunKey(NamedTuple):
    """Identifies a run of an experiment."""

    point: int
    replication: int
    scheduler: str


class AnyWorld(Protocol):
    """Simulated or live."""

    @property
    def clock(self) -> Clock: ...

    @property
    def trace(self) -> TraceRecorder: ...

    def run(self, jobs: Iterable[Job], manager: ResourceManager) -> None:
        """Run until all accepted jobs have ended. Raises SchedulerFault."""
        ...


def run_in(
    world: AnyWorld,
    jobs: Iterable[Job],
    managed: AbstractContextManager[ResourceManager],
    host: Host = HERE,
) -> None:
    """Run a resource manager in a world until all accepted jobs have ended.

    A fault of the scheduler ends the run; it is the last fact of the trace.
    """
    with _fault_is_noted(world, host), managed as manager:
        world.run(jobs, manager)
    host.over()


def steps_in(
    world: World,
    jobs: Iterable[Job],
    managed: AbstractContextManager[ResourceManager],
    host: Host,
) -> Iterator[None]:
    """As `run_in`, with a stop before each event."""
    with _fault_is_noted(world, host), managed as manager:
        yield from world.steps(jobs, manager)


@contextmanager
def _fault_is_noted(world: AnyWorld, host: Host) -> Iterator[None]:
    try:
        yield
    except SchedulerFault as fault:
        world.trace.note_fault(fault.time_s, fault.rule, fault.message, fault.job)
        host.faulted(fault)


def checked_run(
    world: AnyWorld,
    jobs: Iterable[Job],
    managed: AbstractContextManager[ResourceManager],
    run: RunKey,
    capacity: Capacity,
    host: Host = HERE,
) -> pl.DataFrame:
    """The facts of the run of `run_in`; the first breach of an invariant is the last one, too."""
    run_in(world, jobs, managed, host)
    facts = world.trace.frame(*run)
    breach = first_breach(facts, capacity)
    if breach is None:
        return facts
    world.trace.note_fault(world.clock.now_s, breach.rule, breach.message, breach.job)
    return world.trace.frame(*run)


@contextmanager
def hosted(
    follow: Callable[[Host], object],
    schedulers: Iterable[UnderTest],
    log: Path | None = None,
    memory_mb: float | None = None,
) -> Iterator[Host]:
    """The host of a run of these schedulers: this process, or if some are isolated, what
    `sil.isolation.judging.judging` describes."""
    schedulers = tuple(schedulers)
    isolated = _isolated(schedulers)
    if not isolated:
        yield here(schedulers)
        return
    from sil.isolation.judging import judging  # not loaded for built-in schedulers

    folders = {each.spec.name: each.isolation.folder for each in isolated if each.isolation is not None}
    with blamed(isolated), judging(follow, folders, log, memory_mb) as host:
        yield host


def here(schedulers: Iterable[UnderTest]) -> Host:
    """This process as their host."""
    return ThisProcess(next((each.label for each in schedulers if each.raises_faults), None))


@contextmanager
def blamed(schedulers: Iterable[UnderTest]) -> Iterator[None]:
    """Within this context, what the testbed raises itself is due to what `schedulers` give, if they are
    isolated: it ends their run only. Raises CannotBeJudged."""
    try:
        yield
    except (SchedulerFault, UserError, OSError, Interrupted):
        raise
    except BaseException as error:  # those of Polars are no Exceptions
        if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)) or not _isolated(schedulers):
            raise
        if os.environ.get(SHOW_TRACEBACKS):
            print_traceback(traceback_of(error))
        raise CannotBeJudged(error) from error


def _isolated(schedulers: Iterable[UnderTest]) -> list[InProcess]:
    return [each for each in schedulers if isinstance(each, InProcess) and each.isolation is not None]


def asked_apart(call: Callable[[Host], Found], scheduler: UnderTest) -> Found:
    """What `call` returns with the host of a scheduler. Raises SchedulerFault."""

    def hosted_call() -> Found:
        with hosted(call, [scheduler]) as host:
            return call(host)

    found = tried(hosted_call)
    if isinstance(found, Died):
        raise SchedulerFault(found.rule, str(found), 0.0)
    return found


@dataclass(frozen=True)
class Supervision:
    """Where the schedulers of one run are asked, how they are guarded, and seeded if they are random."""

    host: Host
    guard: Guard
    seed: int = 0
    check_determinism: bool = True
    """Whether plug-ins must decide the same in two instances."""

    def scheduler(self, scheduler: InProcess) -> Scheduler:
        respondent = partial(self.host.respondent, scheduler.spec, self.seed, self.guard)
        asks_twice = self.check_determinism and not scheduler.is_built_in
        return GuardedScheduler(respondent(), self.guard, respondent() if asks_twice else None)

    def manager(self, scheduler: InProcess, ports: Ports) -> ResourceManager:
        return self.host.manager(scheduler.spec, self.seed, ports, self.guard)

    def is_memoryless(self, scheduler: InProcess) -> bool:
        """Whether to skip it while no job fits: its decisions are neither charged nor logged."""
        return scheduler.spec.memoryless and self.guard.charge is None and self.guard.decision_log is None


@dataclass(frozen=True)
class Managed:
    """What the resource manager of one run manages, for managers in this process and for Batsim's."""

    ports: Ports
    batsim_nodes: Callable[[], Nodes] | None
    """Makes the nodes as described to Batsim's schedulers; None if its protocol cannot describe them."""
    slurm_world: Callable[[], SlurmWorld] | None
    """What Slurm's controller manages; None if it cannot."""
    n_jobs: int
    dispatcher: SimDispatcher
    supervision: Supervision
    log: Path
    """The file for the output of another process."""
    max_batch_requeue: int | None = None
    """How often a job is requeued after failed runs, under any manager; None where no run fails."""
    remote: Callable[[Callable[[Ports], ResourceManager]], ResourceManager] | None = None
    """Puts a network between the machines and the manager that a function makes; None: there is none."""

    @contextmanager
    def by(
        self, scheduler: UnderTest, built_in: Callable[[Ports, InProcess], ResourceManager]
    ) -> Iterator[ResourceManager]:
        """The scheduler's own resource manager, or the one that `built_in` makes for it, with the limit of
        requeues. Raises SchedulerFault if another process does not start or end properly."""
        if self.remote is not None:
            yield self.remote(partial(self._made, scheduler.require_in_process("a network"), built_in))
            return
        with self._unlimited(scheduler, built_in) as manager:
            most = self.max_batch_requeue
            yield manager if most is None else RequeueLimit(manager, most, self.dispatcher.give_up)

    def _made(
        self, scheduler: InProcess, built_in: Callable[[Ports, InProcess], ResourceManager], ports: Ports
    ) -> ResourceManager:
        if scheduler.has_own_queue:
            return self.supervision.manager(scheduler, ports)
        return built_in(ports, scheduler)

    @contextmanager
    def _unlimited(
        self, scheduler: UnderTest, built_in: Callable[[Ports, InProcess], ResourceManager]
    ) -> Iterator[ResourceManager]:
        guard = self.supervision.guard
        match scheduler:
            case InProcess():
                yield self._made(scheduler, built_in, self.ports)
            case BatsimProgram():
                from sil.batsim.manager import BatsimManager
                from sil.batsim.process import conversation

                assert self.batsim_nodes is not None, "such schedulers have been refused"
                with conversation(scheduler.program, self.log, guard.limit_s) as ask:
                    manager = BatsimManager(self.batsim_nodes(), self.n_jobs, self.dispatcher, ask, guard)
                    yield manager
                    manager.end()
            case SlurmProgram():
                from sil.slurm.world import managed_by

                assert self.slurm_world is not None, "it has been refused"
                with managed_by(scheduler.program, self.slurm_world(), self.dispatcher, guard) as slurm:
                    yield slurm


def what_if_scheduler(
    host: Host, spec: SchedulerSpec, clock: Clock, limit_s: float, seed: int = 0
) -> Scheduler:
    """A new instance for a predictor. Except for LoRaS, its answers are checked, and `schedule` raises
    SchedulerFault, also if a decision takes longer than `limit_s`."""
    from scheduler.time_shared.loras import Loras  # compiled code, loaded only for time-shared nodes

    guard = Guard(clock, limit_s)
    if not spec.is_built_in:
        return CheckedScheduler(host.respondent(spec, seed, guard), guard, WHAT_IF)
    scheduler = spec.make(seed)
    return (
        scheduler
        if isinstance(scheduler, Loras)
        else CheckedScheduler(guard.timed(scheduler), guard, WHAT_IF)
    )
