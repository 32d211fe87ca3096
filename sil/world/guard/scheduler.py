"""The guard around a scheduler under test: a stopwatch, a time limit, and a determinism check."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import nan
from typing import Any

from scheduler.kinds import WrongKind
from scheduler.model import Answer, JobId, NodeSchedule, Schedule
from scheduler.ports import Clock, Scheduler
from scheduler.problem import SchedulingProblem
from scheduler.rules import DETERMINISTIC, RETURNS_IN_TIME, RIGHT_KIND, first_difference
from scheduler.wait_reasons import in_detail
from sil.trace.recorder import TraceRecorder
from sil.world.guard.decision_cost import Charge
from sil.world.guard.faults import SchedulerFault, fault_of, one_line
from sil.world.guard.time_limit import TimeLimitExceeded, time_limit

Timing = tuple[float, int, int, int, float, float, float]
"""One measured decision: the values of MEASURED_SCHEMA."""


@dataclass(frozen=True, eq=False)
class Guard:
    """A stopwatch and a time limit.

    Measurements go to `note`; CPU time is read from `cpu_time`, or not measured (NaN). `charge` charges wall
    time to simulated time. `decision_log` records mappings and wait reasons that have changed.
    """

    clock: Clock
    limit_s: float
    note: Callable[[Timing], None] = lambda timing: None
    charge: Charge | None = None
    decision_log: TraceRecorder | None = None
    cpu_time: Callable[[], float] | None = time.process_time


class _Collections:
    """The total time of garbage collection in this process.

    Python drops exceptions in a callback of the collector, Ctrl-C included, so the callback is installed only
    when a scheduler is to be timed.
    """

    def __init__(self) -> None:
        self.total_s = 0.0
        self._began_s = 0.0

    def listen(self) -> None:
        if self not in gc.callbacks:
            gc.callbacks.append(self)

    def __call__(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began_s = time.perf_counter()
        else:
            self.total_s += time.perf_counter() - self._began_s


_collections = _Collections()

_copies = 0
"""Number of forks between the first process and this one."""


def _count_copy() -> None:
    global _copies
    _copies += 1


os.register_at_fork(after_in_child=_count_copy)


class GuardedScheduler:
    """A timed scheduler whose faults end its run with a report, and not the testbed.

    `witness`, a second and untimed instance, must make the same decisions (the determinism check). Raises
    SchedulerFault if the scheduler raises, exceeds the time limit, or decides differently from the witness.
    """

    def __init__(self, scheduler: Scheduler, guard: Guard, witness: Scheduler | None = None) -> None:
        _collections.listen()
        self._scheduler = scheduler
        self._clock = guard.clock
        self._limit = time_limit(guard.limit_s)
        self._note = guard.note
        self._witness = witness
        self._cpu_time = guard.cpu_time
        self._charge = guard.charge
        self._decision_log = guard.decision_log
        self._logged: dict[JobId, str | tuple[int, float]] = {}
        """The last wait reason of each job, or its resource and start time."""
        self._copies = _copies

    def schedule(self, problem: SchedulingProblem) -> Any:
        now_s, cpu_time, gc_s = self._clock.now_s, self._cpu_time, _collections.total_s
        n_jobs = problem.n_jobs
        cpu_s = cpu_time() if cpu_time is not None else nan
        wall_s = time.perf_counter()
        schedule = self._ask(self._scheduler, problem, wall_s)
        wall_s = time.perf_counter() - wall_s
        if cpu_time is not None:
            cpu_s = cpu_time() - cpu_s
        n_decisions = _count_of(schedule)
        gc_s = _collections.total_s - gc_s
        self._note((now_s, n_jobs, problem.n_places, n_decisions, wall_s, cpu_s, gc_s))
        if self._witness is not None:
            self._compare(problem, schedule, self._ask(self._witness, problem, time.perf_counter()))
        if self._decision_log is not None:
            self._log(problem, schedule, now_s, self._decision_log)
        if self._charge is not None:
            self._charge(n_jobs, problem.n_places, wall_s - gc_s)
        return schedule

    def load_for_requests(self) -> None:
        """See `scheduler.ports.Scheduler`. Raises SchedulerFault."""
        for scheduler in (self._scheduler, self._witness):
            load = getattr(scheduler, "load_for_requests", None)
            if load is None:
                continue
            try:
                load()
            except BaseException as error:
                name, now_s = f"{type(scheduler).__name__}.load_for_requests", self._clock.now_s
                raise fault_of(error, name, type(scheduler).__module__, now_s) from error

    def _ask(self, scheduler: Scheduler, problem: SchedulingProblem, began_s: float) -> Answer:
        try:
            self._limit.begin(began_s)
            try:
                answer: Answer = scheduler.schedule(problem)
                return answer
            finally:
                if _copies != self._copies:
                    os._exit(0)  # the scheduler forked: end the copy of the testbed
                self._limit.end()
        except TimeLimitExceeded:
            message = f"{_method(scheduler)} did not return within {self._limit.limit_s:g} s"
            raise SchedulerFault(RETURNS_IN_TIME, message, self._clock.now_s) from None
        except WrongKind as error:
            raise SchedulerFault(RIGHT_KIND, str(error), self._clock.now_s) from error
        except BaseException as error:
            raise fault_of(
                error, _method(scheduler), type(scheduler).__module__, self._clock.now_s
            ) from error

    def _log(self, problem: SchedulingProblem, schedule: Answer, now_s: float, log: TraceRecorder) -> None:
        if problem.violation(schedule):
            return  # the manager will reject it
        logged, reasons = self._logged, schedule.wait_reasons
        for i in reasons:
            job, reason = problem.jobs[i].id, one_line(in_detail(reasons, i))
            if logged.get(job) != reason:
                logged[job] = reason
                log.note_reason(now_s, job, reason)
        for assignment in schedule.assignments if isinstance(schedule, Schedule) else ():
            job, start = problem.jobs[assignment.job].id, (assignment.resource, assignment.start_s)
            if logged.get(job) != start:
                logged[job] = start
                log.note_mapping(now_s, job, *start, assignment.completion_s - assignment.start_s)

    def _compare(self, problem: SchedulingProblem, schedule: Answer, again: Answer) -> None:
        if problem.violation(schedule):
            return  # the manager will reject it
        if broken := problem.violation(again):
            message = (
                f"for the same problem, a second instance broke the rule {broken.rule}: {broken.message}"
            )
            raise SchedulerFault(DETERMINISTIC, message, self._clock.now_s, broken.job)
        difference = first_difference(schedule, again)
        if difference is not None:
            job = problem.jobs[difference].id if 0 <= difference < problem.n_jobs else None
            message = f"for the same problem, two instances decided differently, first for job {job}"
            raise SchedulerFault(DETERMINISTIC, message, self._clock.now_s, job)


class CheckedScheduler(GuardedScheduler):
    """Checks its schedules, for callers without a resource manager. Messages begin with `context`, in which
    {now_s} is the time of the problem."""

    def __init__(self, scheduler: Scheduler, guard: Guard, context: str = "") -> None:
        super().__init__(scheduler, guard)
        self._context = context

    def schedule(self, problem: SchedulingProblem) -> Any:
        schedule = super().schedule(problem)
        violation = problem.violation(schedule)
        if violation is not None:
            context = self._context.format(now_s=problem.now_s)
            raise SchedulerFault.of(violation, self._clock.now_s, context)
        return schedule


def _count_of(schedule: object) -> int:
    """Numbers of assignments, starts and preemptions; 0 if it is not a schedule."""
    try:
        if isinstance(schedule, NodeSchedule):
            return len(schedule.starts)
        if isinstance(schedule, Schedule):
            return len(schedule.assignments) + len(schedule.preemptions)
    except TypeError:
        pass
    return 0


def _method(scheduler: Scheduler) -> str:
    return f"{type(scheduler).__name__}.schedule"
