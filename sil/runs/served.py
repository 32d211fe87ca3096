"""A scheduler offered to a simulator that speaks Batsim's protocol."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from scheduler.free_nodes.runtime_estimates import UserEstimates
from scheduler.ports import AnyScheduler
from scheduler.registry import SchedulerSpec
from scheduler.rules import ScheduleRejected
from sil.batsim.serving import MessageClock, ServedScheduler, listening
from sil.isolation.host import Host
from sil.runs.hosting import hosted
from sil.runs.under_test import InProcess
from sil.world.guard.faults import SchedulerFault
from sil.world.guard.scheduler import Guard, GuardedScheduler


def serve_scheduler(
    scheduler: InProcess, address: str, limit_s: float, on_listening: Callable[[], None]
) -> None:
    """Answer at an address like tcp://127.0.0.1:28000 until the simulation is over. Raises UserError,
    and SchedulerFault if the scheduler breaks a rule."""
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

    def made(clock: MessageClock) -> AnyScheduler:
        guard = Guard(clock, limit_s, cpu_time=None)
        return GuardedScheduler(host.respondent(spec, 0, guard), guard)

    served = ServedScheduler(made, UserEstimates(), spec.memoryless)
    while not served.is_over:
        message = host.input(receive)
        try:
            reply(served.answer(message))
        except ScheduleRejected as rejected:
            raise SchedulerFault.of(rejected.violation, served.clock.now_s) from None
