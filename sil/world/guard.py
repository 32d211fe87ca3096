"""What stands between the manager and a scheduler under test: a stopwatch, a time limit, a witness."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scheduler.model import Schedule
from scheduler.ports import Clock, Scheduler
from scheduler.problem import SchedulingProblem
from scheduler.rules import (
    DETERMINISTIC,
    RAISES_NOTHING,
    RETURNS_IN_TIME,
    Violation,
    first_difference,
    first_violation,
)
from sil.world.faults import SchedulerFault
from sil.world.time_limit import TimeLimitExceeded, time_limit


@dataclass(frozen=True, slots=True)
class Timing:
    """One measured decision: simulated time, size of the problem, and what it cost."""

    time_s: float
    n_jobs: int
    n_resources: int
    wall_s: float
    cpu_s: float


Check = Callable[[SchedulingProblem, Schedule], Violation | None]
"""Tells the first rule that a schedule breaks."""


class GuardedScheduler:
    """A scheduler that is timed, and whose faults end its run with a report instead of the testbed.

    Where a `witness` is given, a second, untimed instance of the same scheduler, it must decide the same
    every time. Raises SchedulerFault if the scheduler raises, does not return within `limit_s`, or decides
    otherwise than the witness.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        limit_s: float,
        note: Callable[[Timing], None],
        witness: Scheduler | None = None,
        check: Check = first_violation,
    ) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._limit_s = limit_s
        self._note = note
        self._witness = witness
        self._check = check

    def schedule(self, problem: SchedulingProblem) -> Schedule:
        schedule, timing = self._guarded(self._scheduler, problem)
        self._note(timing)
        if self._witness is not None:
            self._compare(problem, schedule, self._guarded(self._witness, problem)[0])
        return schedule

    def _guarded(self, scheduler: Scheduler, problem: SchedulingProblem) -> tuple[Schedule, Timing]:
        try:
            with time_limit(self._limit_s):
                wall_s, cpu_s = time.perf_counter(), time.process_time()
                schedule = scheduler.schedule(problem)
                wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
            size = problem.n_jobs, problem.n_places
            return schedule, Timing(self._clock.now_s, *size, wall_s, cpu_s)
        except TimeLimitExceeded:
            message = f"{_who(scheduler)} did not return within {self._limit_s:g} s"
            raise SchedulerFault(RETURNS_IN_TIME, message, self._clock.now_s) from None
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and multiprocessing.parent_process() is None:
                raise  # the user's; a worker process is ended by Ctrl-C without one
            message = f"{_who(scheduler)} raised {type(error).__name__}: {error}{_where(error)}"
            raise SchedulerFault(RAISES_NOTHING, message, self._clock.now_s) from error

    def _compare(self, problem: SchedulingProblem, schedule: Schedule, again: Schedule) -> None:
        if self._check(problem, schedule):
            return  # the manager rejects it for that
        if broken := self._check(problem, again):
            message = (
                f"asked twice for the same problem, it broke the rule {broken.rule} once: {broken.message}"
            )
            raise SchedulerFault(DETERMINISTIC, message, self._clock.now_s, broken.job)
        difference = first_difference(schedule, again)
        if difference is not None:
            job = problem.jobs[difference].id if 0 <= difference < problem.n_jobs else None
            message = f"asked twice for the same problem, it decided differently from job {job} on"
            raise SchedulerFault(DETERMINISTIC, message, self._clock.now_s, job)


def _who(scheduler: Scheduler) -> str:
    return f"{type(scheduler).__name__}.schedule"


def _where(error: BaseException) -> str:
    """Where in the scheduler's own code an exception arose."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    return f" ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"
