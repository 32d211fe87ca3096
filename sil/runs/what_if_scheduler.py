"""Schedulers that are asked what they would decide later: as safe for the testbed as the live ones."""

from __future__ import annotations

from scheduler import registry
from scheduler.model import NodeSchedule
from scheduler.ports import Clock, Scheduler
from scheduler.time_shared.loras import Loras
from scheduler.time_shared.problem import TimeSharedProblem
from sil.world.guard.faults import SchedulerFault
from sil.world.guard.scheduler import GuardedScheduler


def imagined(name: str, clock: Clock, limit_s: float) -> Scheduler:
    """An instance of its own of the scheduler of that name, for a predictor. Of others than LoRaS each answer
    is checked; schedule raises SchedulerFault, also where one takes longer than `limit_s`."""
    scheduler = registry.load(name)()
    return scheduler if isinstance(scheduler, Loras) else _Imagined(scheduler, clock, limit_s)


class _Imagined:
    def __init__(self, scheduler: Scheduler, clock: Clock, limit_s: float) -> None:
        self._clock = clock
        self._guarded = GuardedScheduler(scheduler, clock, limit_s, lambda timing: None)

    def schedule(self, problem: TimeSharedProblem) -> NodeSchedule:
        schedule: NodeSchedule = self._guarded.schedule(problem)
        broken = problem.violation(schedule)
        if broken is not None:
            message = f"asked what it would decide at {problem.now_s:.12g} s: {broken.message}"
            raise SchedulerFault(broken.rule, message, self._clock.now_s, broken.job)
        return schedule
