"""A scheduler offered to a simulator that speaks Batsim's protocol."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from scheduler.free_nodes.runtime_estimates import UserEstimates
from scheduler.ports import Scheduler
from scheduler.registry import SchedulerSpec
from scheduler.rules import ScheduleRejected
from sil.batsim.serving import MessageClock, ServedScheduler, listening
from sil.isolation.side import side
from sil.runs.composition import judged
from sil.runs.under_test import UnderTest
from sil.world.guard.faults import SchedulerFault
from sil.world.guard.scheduler import Guard, GuardedScheduler


def serve_scheduler(
    scheduler: UnderTest, address: str, limit_s: float, on_listening: Callable[[], None]
) -> None:
    """Answer at an address like tcp://127.0.0.1:28000 until the simulation is over. Raises UserError,
    and SchedulerFault if the scheduler breaks a rule."""
    spec = scheduler.spec
    with listening(address) as (receive, reply), judged(partial(_follow, spec, limit_s), [scheduler]):
        on_listening()
        _answer_all(spec, limit_s, receive, reply)


def _answer_all(
    spec: SchedulerSpec, limit_s: float, receive: Callable[[], bytes], reply: Callable[[str], None]
) -> None:
    def made(clock: MessageClock) -> Scheduler:
        guard = Guard(clock, limit_s, cpu_time=None)
        return GuardedScheduler(side().respondent(spec, 0, guard), guard)

    served = ServedScheduler(made, UserEstimates(), spec.memoryless)
    while not served.is_over:
        message = side().input(receive)
        try:
            reply(served.answer(message))
        except ScheduleRejected as rejected:
            raise SchedulerFault.of(rejected.violation, served.clock.now_s) from None


def _follow(spec: SchedulerSpec, limit_s: float) -> None:
    """The same simulation, where the scheduler answers."""
    _answer_all(spec, limit_s, lambda: b"", lambda answer: None)
