"""What stands between the manager and a scheduler under test: a stopwatch, a time limit, a witness."""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections.abc import Callable
from math import nan
from pathlib import Path
from typing import Any, Protocol

from scheduler.kinds import WrongKind
from scheduler.model import Answer, JobId, NodeSchedule, Schedule
from scheduler.ports import Clock, Scheduler
from scheduler.problem import SchedulingProblem
from scheduler.rules import DETERMINISTIC, RAISES_NOTHING, RETURNS_IN_TIME, RIGHT_KIND, first_difference
from scheduler.wait_reasons import in_detail
from sil.world.guard.decision_cost import Charge
from sil.world.guard.faults import SchedulerFault
from sil.world.guard.time_limit import TimeLimitExceeded, time_limit

Timing = tuple[float, int, int, int, float, float, float]
"""One measured decision: simulated time, how many jobs, resources and decisions; seconds of wall and CPU
time, both with the seconds of garbage collection, which come last. As columns of TIMINGS_SCHEMA."""


class Notes(Protocol):
    """Hears, for each job of a problem, what became of it, where that is not what it was."""

    def note_reason(self, time_s: float, job: JobId, why: str) -> None:
        """It was left waiting."""
        ...

    def note_mapping(self, time_s: float, job: JobId, resource: int, start_s: float, takes_s: float) -> None:
        """It was mapped to a resource."""
        ...


class _Collections:
    """How long garbage collection has taken in this process.

    Python drops what is raised while it is called: so also a Ctrl-C, which is why nobody listens before there
    is a scheduler to be timed.
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

MOST_TOLD = 500
"""Letters of what an exception of a scheduler says."""

_copies = 0
"""How many times the process from which this one comes was forked."""


def _count_copy() -> None:
    global _copies
    _copies += 1


os.register_at_fork(after_in_child=_count_copy)


class GuardedScheduler:
    """A scheduler that is timed, and whose faults end its run with a report instead of the testbed.

    Its CPU time is measured by the clock `cpu_time`, or not (NaN). Its wall time without garbage collection
    may be charged to simulated time by `charge`; what becomes of each job may be told to `notes`.
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
        cpu_time: Callable[[], float] | None = time.process_time,
        charge: Charge | None = None,
        notes: Notes | None = None,
    ) -> None:
        _collections.listen()
        self._scheduler = scheduler
        self._clock = clock
        self._limit_s = limit_s
        self._limit = time_limit(limit_s)
        self._note = note
        self._witness = witness
        self._cpu_time = cpu_time
        self._charge = charge
        self._notes = notes
        self._told: dict[JobId, str | tuple[int, float]] = {}
        """Why each job was left waiting, or where it was mapped and when it was to start, the last time."""
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
        if self._notes is not None:
            self._tell(problem, schedule, now_s, self._notes)
        if self._charge is not None:
            self._charge(n_jobs, problem.n_places, wall_s - gc_s)
        return schedule

    def _ask(self, scheduler: Scheduler, problem: SchedulingProblem, began_s: float) -> Answer:
        try:
            self._limit.begin(began_s)
            try:
                answer: Answer = scheduler.schedule(problem)
                return answer
            finally:
                if _copies != self._copies:
                    os._exit(0)  # the scheduler forked: a copy of the testbed must not go on beside it
                self._limit.end()
        except TimeLimitExceeded:
            message = f"{_who(scheduler)} did not return within {self._limit_s:g} s"
            raise SchedulerFault(RETURNS_IN_TIME, message, self._clock.now_s) from None
        except WrongKind as error:
            raise SchedulerFault(RIGHT_KIND, str(error), self._clock.now_s) from error
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and multiprocessing.parent_process() is None:
                raise  # the user's; a worker process is ended by Ctrl-C without one
            message = f"{_who(scheduler)} raised {type(error).__name__}: {said_by(error)}{where(error)}"
            raise SchedulerFault(RAISES_NOTHING, message, self._clock.now_s) from error

    def _tell(self, problem: SchedulingProblem, schedule: Answer, now_s: float, notes: Notes) -> None:
        if problem.violation(schedule):
            return  # the manager rejects it for that
        told, left = self._told, schedule.wait_reasons
        for i in left:
            job, reason = problem.jobs[i].id, said_by(in_detail(left, i))
            if told.get(job) != reason:
                told[job] = reason
                notes.note_reason(now_s, job, reason)
        for assignment in schedule.assignments if isinstance(schedule, Schedule) else ():
            job, there = problem.jobs[assignment.job].id, (assignment.resource, assignment.start_s)
            if told.get(job) != there:
                told[job] = there
                takes_s = assignment.completion_s - assignment.start_s
                notes.note_mapping(now_s, job, *there, takes_s)

    def _compare(self, problem: SchedulingProblem, schedule: Answer, again: Answer) -> None:
        if problem.violation(schedule):
            return  # the manager rejects it for that
        if broken := problem.violation(again):
            message = (
                f"asked twice for the same problem, it broke the rule {broken.rule} once: {broken.message}"
            )
            raise SchedulerFault(DETERMINISTIC, message, self._clock.now_s, broken.job)
        difference = first_difference(schedule, again)
        if difference is not None:
            job = problem.jobs[difference].id if 0 <= difference < problem.n_jobs else None
            message = f"asked twice for the same problem, it decided differently from job {job} on"
            raise SchedulerFault(DETERMINISTIC, message, self._clock.now_s, job)


def _count_of(schedule: object) -> int:
    """How many jobs it assigns or starts, and runs it preempts; it may be no schedule at all."""
    try:
        if isinstance(schedule, NodeSchedule):
            return len(schedule.starts)
        if isinstance(schedule, Schedule):
            return len(schedule.assignments) + len(schedule.preemptions)
    except TypeError:
        pass
    return 0


def _who(scheduler: Scheduler) -> str:
    return f"{type(scheduler).__name__}.schedule"


def said_by(something: object) -> str:
    """The text of an exception, or of what should be one, in one line, and not a very long one."""
    try:
        said = " ".join(str(something).split()).encode("utf-8", "replace").decode()
    except Exception:  # also that is the scheduler's own code
        return "(what it says cannot be told)"
    return said if len(said) <= MOST_TOLD else f"{said[:MOST_TOLD]} ..."


def where(error: BaseException) -> str:
    """Where in the scheduler's own code an exception arose."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    return f" ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"
