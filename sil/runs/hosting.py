"""Where the schedulers under test of a run are asked, and how they are guarded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, TypeVar

from scheduler import UserError
from scheduler.free_nodes.runtime_estimates import UserEstimates
from scheduler.ports import AnyScheduler, Clock
from scheduler.registry import SchedulerSpec
from scheduler.resource_manager import Manager, Ports
from scheduler.rules import ScheduleRejected
from sil.isolation.host import Host, ThisProcess
from sil.runs.under_test import InProcess, UnderTest
from sil.settings.decision_costs import DecisionRules, decision_cost
from sil.workers.executor import FIRST, Attempt, Interrupted, tried
from sil.world import SHOW_TRACEBACKS
from sil.world.guard.decision_time import Charge
from sil.world.guard.faults import Died, SchedulerFault, cannot_be_judged, print_traceback, traceback_of
from sil.world.guard.scheduler import Guard, GuardedScheduler, TimedScheduler

if TYPE_CHECKING:
    from sil.world.harness import World

Found = TypeVar("Found")

WHAT_IF = "asked by a predictor about {now_s:.12g} s: "


@contextmanager
def hosted(
    follow: Callable[[Host], object],
    schedulers: Iterable[UnderTest],
    log: Path | None = None,
    memory_mb: float | None = None,
    attempt: Attempt = FIRST,
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
    with blamed(isolated), judging(follow, folders, log, memory_mb, attempt) as host:
        yield host


def here(schedulers: Iterable[UnderTest]) -> Host:
    """This process as their host."""
    return ThisProcess(next((each.label for each in schedulers if each.raises_faults), None))


@contextmanager
def blamed(schedulers: Iterable[UnderTest]) -> Iterator[None]:
    """Within this context, an error of the testbed itself is attributed to `schedulers`, if they are
    isolated: it ends their run only. Raises Died."""
    try:
        yield
    except (SchedulerFault, UserError, OSError, Interrupted):
        raise
    except BaseException as error:  # those of Polars are no Exceptions
        if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)) or not _isolated(schedulers):
            raise
        if os.environ.get(SHOW_TRACEBACKS):
            print_traceback(traceback_of(error))
        raise cannot_be_judged(error) from error


def _isolated(schedulers: Iterable[UnderTest]) -> list[InProcess]:
    return [each for each in schedulers if isinstance(each, InProcess) and each.isolation is not None]


def call_isolated(call: Callable[[Host], Found], scheduler: UnderTest) -> Found:
    """What `call` returns with the host of a scheduler. Raises SchedulerFault."""

    def hosted_call(attempt: Attempt) -> Found:
        with hosted(call, [scheduler], attempt=attempt) as host:
            return call(host)

    found = tried(hosted_call)
    if isinstance(found, Died):
        raise SchedulerFault(found.rule, str(found), 0.0)
    return found


@dataclass(eq=False)
class Supervision:
    """Where the schedulers of one run are asked, how they are guarded, and seeded if they are random."""

    host: Host
    guard: Guard
    seed: int = 0
    check_determinism: bool = True
    """Whether plug-ins must decide the same in two instances."""

    @classmethod
    def of(
        cls,
        rules: DecisionRules,
        run: tuple[int, int, str],
        host: Host,
        world: World,
        decisions: list[float],
        seed: int,
        cpu_time: Callable[[], float] | None = process_time,
    ) -> Supervision:
        """The supervision of one run. Measured decisions are added to `decisions`."""
        *_, scheduler = run
        cost = decision_cost(rules.cost_of(scheduler), *run)
        charge = None if cost is None else Charge(cost, world.clock, world.trace.note_charge)
        log = world.trace if rules.reasons else None
        guard = Guard(world.clock, rules.decision_limit_s, decisions.extend, charge, log, cpu_time)
        return cls(host, guard, seed, rules.ask_twice)

    def scheduler(self, scheduler: InProcess) -> AnyScheduler:
        respondent = partial(self.host.respondent, scheduler.spec, self.seed, self.guard)
        asks_twice = self.check_determinism and not scheduler.is_built_in
        return GuardedScheduler(respondent(), self.guard, respondent() if asks_twice else None)

    def manager(self, scheduler: InProcess, ports: Ports) -> Manager:
        return self.host.manager(scheduler.spec, self.seed, ports, self.guard)

    def what_ifs(self, scheduler: InProcess, clock: Clock) -> Callable[[], AnyScheduler]:
        """Makes a new instance for each forecast."""
        return partial(what_if_scheduler, self.host, scheduler.spec, clock, self.guard.limit_s, self.seed)

    def is_memoryless(self, scheduler: InProcess) -> bool:
        """Whether to skip it while no job fits: its decisions are neither charged nor logged."""
        return scheduler.spec.memoryless and self.guard.charge is None and self.guard.decision_log is None


def what_if_scheduler(
    host: Host, spec: SchedulerSpec, clock: Clock, limit_s: float, seed: int = 0
) -> AnyScheduler:
    """A new instance for a predictor. Except for LoRaS, its answers are checked, and `schedule` raises
    SchedulerFault, also if a decision takes longer than `limit_s`."""
    from scheduler.time_shared.loras import Loras  # compiled code, loaded only for time-shared nodes

    guard = Guard(clock, limit_s)
    if not spec.is_built_in:
        return GuardedScheduler(host.respondent(spec, seed, guard), guard, context=WHAT_IF)
    scheduler = spec.make(seed)
    if isinstance(scheduler, Loras):
        return scheduler
    return GuardedScheduler(TimedScheduler(scheduler, guard), guard, context=WHAT_IF)


def serve_scheduler(
    scheduler: InProcess, address: str, limit_s: float, on_listening: Callable[[], None]
) -> None:
    """Answer at an address like tcp://127.0.0.1:28000 until the simulation is over. Raises UserError,
    and SchedulerFault if the scheduler breaks a rule."""
    from sil.batsim.serving import listening

    spec = scheduler.spec
    with (
        listening(address) as (receive, reply),
        hosted(partial(_answer_all, spec, limit_s), [scheduler]) as host,
    ):
        on_listening()
        _answer_all(spec, limit_s, host, receive, reply)


def _answer_all(
    spec: SchedulerSpec,
    limit_s: float,
    host: Host,
    receive: Callable[[], bytes] = bytes,
    reply: Callable[[str], None] = lambda answer: None,
) -> None:
    """By default, nothing is received and sent: the same simulation, where the scheduler answers."""
    from sil.batsim.serving import ServedScheduler

    def made(clock: Clock) -> AnyScheduler:
        guard = Guard(clock, limit_s, cpu_time=None)
        return GuardedScheduler(host.respondent(spec, 0, guard), guard)

    served = ServedScheduler(made, UserEstimates(), spec.memoryless)
    while not served.is_over:
        message = host.input(receive)
        try:
            reply(served.answer(message))
        except ScheduleRejected as rejected:
            raise SchedulerFault.of(rejected.violation, served.clock.now_s) from None
