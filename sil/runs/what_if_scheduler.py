"""Schedulers that predictors ask what they would decide later, guarded like the live ones."""

from __future__ import annotations

from scheduler.model import NodeSchedule
from scheduler.ports import Clock, Scheduler
from scheduler.registry import SchedulerSpec
from scheduler.time_shared.loras import Loras
from scheduler.time_shared.problem import TimeSharedProblem
from sil.world.guard.faults import SchedulerFault
from sil.world.guard.guard import Guard
from sil.world.guard.scheduler import GuardedScheduler


def what_if_scheduler(spec: SchedulerSpec, clock: Clock, limit_s: float, seed: int = 0) -> Scheduler:
    """A new instance for a predictor. Except for LoRaS, its answers are checked, and `schedule` raises
    SchedulerFault, also if a decision takes longer than `limit_s`."""
    scheduler = spec.make(seed)
    return scheduler if isinstance(scheduler, Loras) else _WhatIfScheduler(scheduler, clock, limit_s)


class _WhatIfScheduler:
    def __init__(self, scheduler: Scheduler, clock: Clock, limit_s: float) -> None:
        self._clock = clock
        self._guarded = GuardedScheduler(scheduler, Guard(clock, limit_s))

    def schedule(self, problem: TimeSharedProblem) -> NodeSchedule:
        schedule: NodeSchedule = self._guarded.schedule(problem)
        violation = problem.violation(schedule)
        if violation is not None:
            context = f"asked by a predictor about {problem.now_s:.12g} s: "
            raise SchedulerFault.of(violation, self._clock.now_s, context)
        return schedule
