"""The composition root: a scheduler under test, with what it manages, in a world."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
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
from sil.isolation.side import side
from sil.outcome.invariants.breach import Capacity
from sil.outcome.invariants.checker import first_breach
from sil.runs.under_test import UnderTest
from sil.trace.recorder import TraceRecorder
from sil.workers.executor import Died, Interrupted, tried
from sil.world import SHOW_TRACEBACKS
from sil.world.dispatcher import SimDispatcher
from sil.world.guard.apart import isolates_schedulers
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


def _pass(_: SchedulerFault, scheduler: str) -> None:
    """The fault is in the trace."""


OnFault = Callable[[SchedulerFault, str], None]
"""Called with a fault and the name of the scheduler."""

_on_fault: ContextVar[OnFault] = ContextVar("on_fault", default=_pass)


@contextmanager
def faults_to(listener: OnFault) -> Iterator[None]:
    """Within this context, pass the faults of runs in this process to `listener`, with their tracebacks. It
    may raise them."""
    before = _on_fault.set(listener)
    try:
        yield
    finally:
        _on_fault.reset(before)


def run_in(
    world: AnyWorld,
    jobs: Iterable[Job],
    managed: AbstractContextManager[ResourceManager],
    scheduler: str,
) -> None:
    """Run a resource manager in a world until all accepted jobs have ended.

    A fault of the scheduler, whose name this is, ends the run; it is the last fact of the trace.
    """
    with _fault_is_noted(world, scheduler), managed as manager:
        world.run(jobs, manager)
    side().over()


def steps_in(
    world: World,
    jobs: Iterable[Job],
    managed: AbstractContextManager[ResourceManager],
    scheduler: str,
) -> Iterator[None]:
    """As `run_in`, with a stop before each event."""
    with _fault_is_noted(world, scheduler), managed as manager:
        yield from world.steps(jobs, manager)


@contextmanager
def _fault_is_noted(world: AnyWorld, scheduler: str) -> Iterator[None]:
    try:
        yield
    except SchedulerFault as fault:
        world.trace.note_fault(fault.time_s, fault.rule, fault.message, fault.job)
        side().faulted(fault)
        _on_fault.get()(fault, scheduler)


def checked_run(
    world: AnyWorld,
    jobs: Iterable[Job],
    managed: AbstractContextManager[ResourceManager],
    run: RunKey,
    capacity: Capacity,
) -> pl.DataFrame:
    """The facts of the run of `run_in`; the first breach of an invariant is the last one, too."""
    run_in(world, jobs, managed, run.scheduler)
    facts = world.trace.frame(*run)
    breach = first_breach(facts, capacity)
    if breach is None:
        return facts
    world.trace.note_fault(world.clock.now_s, breach.rule, breach.message, breach.job)
    return world.trace.frame(*run)


@contextmanager
def judged(
    follow: Callable[[], object],
    schedulers: Iterable[UnderTest],
    log: Path | None = None,
    memory_mb: float | None = None,
) -> Iterator[None]:
    """As `sil.isolation.judging.judged`, unless this process trusts all schedulers."""
    asked = _judged_ones(schedulers)
    if not asked:
        yield
        return
    from sil.isolation import judging  # not loaded for built-in schedulers

    with blamed(asked), judging.judged(follow, [each.spec for each in asked], log, memory_mb):
        yield


@contextmanager
def blamed(schedulers: Iterable[UnderTest]) -> Iterator[None]:
    """Within this context, what the testbed raises itself is due to what `schedulers` give, if they are
    judged: it ends their run only. Raises CannotBeJudged."""
    try:
        yield
    except (SchedulerFault, UserError, OSError, Interrupted):
        raise
    except BaseException as error:  # those of Polars are no Exceptions
        if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)) or not _judged_ones(schedulers):
            raise
        if os.environ.get(SHOW_TRACEBACKS):
            print_traceback(traceback_of(error))
        raise CannotBeJudged(error) from error


def _judged_ones(schedulers: Iterable[UnderTest]) -> list[UnderTest]:
    """Those in processes of their own."""
    if not isolates_schedulers():
        return []
    return [each for each in schedulers if each.in_process is not None and not each.is_built_in]


def asked_apart(call: Callable[[], Found], schedulers: Iterable[UnderTest]) -> Found:
    """What `call` returns, within `judged`. Raises SchedulerFault."""
    schedulers = tuple(schedulers)

    def judged_call() -> Found:
        with judged(call, schedulers):
            return call()

    found = tried(judged_call)
    if isinstance(found, Died):
        raise SchedulerFault(found.rule, str(found), 0.0)
    return found


@dataclass(frozen=True)
class Supervision:
    """How the schedulers of one run are guarded, and seeded if they are random."""

    guard: Guard
    seed: int = 0
    check_determinism: bool = True
    """Whether plug-ins must decide the same in two instances."""

    def scheduler(self, scheduler: UnderTest) -> Scheduler:
        respondent = partial(side().respondent, scheduler.spec, self.seed, self.guard)
        asks_twice = self.check_determinism and not scheduler.is_built_in
        return GuardedScheduler(respondent(), self.guard, respondent() if asks_twice else None)

    def is_memoryless(self, scheduler: UnderTest) -> bool:
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
        self, scheduler: UnderTest, built_in: Callable[[Ports], ResourceManager]
    ) -> Iterator[ResourceManager]:
        """The scheduler's own resource manager, or the one that `built_in` makes, with the limit of requeues.
        Raises SchedulerFault if another process does not start or end properly."""
        if self.remote is not None:
            guard, seed = self.supervision.guard, self.supervision.seed
            is_manager = scheduler.spec.is_manager
            own = partial(side().manager, scheduler.spec, seed)
            yield self.remote((lambda ports: own(ports, guard)) if is_manager else built_in)
            return
        with self._unlimited(scheduler, built_in) as manager:
            most = self.max_batch_requeue
            yield manager if most is None else RequeueLimit(manager, most, self.dispatcher.give_up)

    @contextmanager
    def _unlimited(
        self, scheduler: UnderTest, built_in: Callable[[Ports], ResourceManager]
    ) -> Iterator[ResourceManager]:
        guard, seed = self.supervision.guard, self.supervision.seed
        if scheduler.batsim is not None:
            from sil.batsim.manager import BatsimManager
            from sil.batsim.process import conversation

            assert self.batsim_nodes is not None, "such schedulers have been refused"
            with conversation(scheduler.batsim, self.log, guard.limit_s) as ask:
                manager = BatsimManager(self.batsim_nodes(), self.n_jobs, self.dispatcher, ask, guard)
                yield manager
                manager.end()
        elif scheduler.slurm is not None:
            from sil.slurm.world import managed_by

            assert self.slurm_world is not None, "it has been refused"
            with managed_by(scheduler.slurm, self.slurm_world(), self.dispatcher, guard) as slurm:
                yield slurm
        elif scheduler.spec.is_manager:
            yield side().manager(scheduler.spec, seed, self.ports, guard)
        else:
            yield built_in(self.ports)


def what_if_scheduler(spec: SchedulerSpec, clock: Clock, limit_s: float, seed: int = 0) -> Scheduler:
    """A new instance for a predictor. Except for LoRaS, its answers are checked, and `schedule` raises
    SchedulerFault, also if a decision takes longer than `limit_s`."""
    from scheduler.time_shared.loras import Loras  # compiled code, loaded only for time-shared nodes

    guard = Guard(clock, limit_s)
    if not spec.is_built_in:
        return CheckedScheduler(side().respondent(spec, seed, guard), guard, WHAT_IF)
    scheduler = spec.make(seed)
    return (
        scheduler
        if isinstance(scheduler, Loras)
        else CheckedScheduler(guard.timed(scheduler), guard, WHAT_IF)
    )
