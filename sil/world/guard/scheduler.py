"""A scheduler under test: a stopwatch and a time limit around the only calls of its code, and the guard that
notes its decisions, checks that they are deterministic, and charges for them."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import nan
from time import perf_counter, process_time
from typing import Any, NamedTuple, Protocol

import numpy as np

from scheduler.model import Answer, JobId, NodeSchedule, Schedule
from scheduler.ports import AnyScheduler, Clock
from scheduler.problem import LazyJobs, SchedulingProblem
from scheduler.rules import (
    DETERMINISTIC,
    PROBLEM_UNTOUCHED,
    RETURNS_IN_TIME,
    RIGHT_KIND,
    WrongKind,
    all_in_detail,
    first_difference,
)
from sil.trace.recorder import TraceRecorder
from sil.world.guard.decision_time import Charge, TimeLimitExceeded, has_watchdog, time_limit
from sil.world.guard.faults import SchedulerFault, fault_of, name_of, one_line

MAKING_LIMIT_S = 120.0
"""The time to import a scheduler, make an instance or prepare it, in seconds; its libraries may be large."""

WATCHED = 64
"""The first questions, and then one in this many, are compared with copies, which takes time."""

Timing = tuple[float, int, int, int, float, float, float]
"""One measured decision: the values of MEASURED_SCHEMA."""


class Decision(NamedTuple):
    """An answer, and what it took; garbage collection (`gc_s`) is part of both times. CPU time is NaN where
    it is not measured."""

    answer: Any
    wall_s: float
    cpu_s: float
    gc_s: float


class Respondent(Protocol):
    """Where a scheduler is asked: in this process or in one of its own."""

    def decide(self, problem: SchedulingProblem) -> Decision:
        """Make a decision. Raises SchedulerFault."""


class _Collections:
    """The total time of garbage collection in this process.

    Python drops exceptions in a callback of the collector, Ctrl-C included, so the callback is installed only
    when a scheduler is to be timed.
    """

    def __init__(self) -> None:
        self.total_s = 0.0
        self._began_s = 0.0
        self._time = perf_counter

    def listen(self) -> None:
        if self not in gc.callbacks:
            gc.callbacks.append(self)

    def __call__(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began_s = self._time()
        else:
            self.total_s += self._time() - self._began_s


_collections = _Collections()


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
    cpu_time: Callable[[], float] | None = process_time

    def fault_of(self, error: BaseException, method: str, module: str) -> SchedulerFault:
        """The fault for an exception raised by `method`, of a class in `module`. Re-raises Ctrl-C, unless
        this is a process of its own, which Ctrl-C does not reach."""
        if isinstance(error, KeyboardInterrupt) and not has_watchdog():
            raise error
        return fault_of(error, method, module, self.clock.now_s)


class TimedScheduler:
    """A scheduler in this process: timed, and under a time limit.

    The clocks are kept from before the scheduler is imported: libraries that freeze the time replace those of
    modules. One that is not built in `is_watched`, whether it changes the problem. Raises SchedulerFault if
    it raises or exceeds the limit.
    """

    def __init__(self, scheduler: AnyScheduler, guard: Guard, is_watched: bool = False) -> None:
        _collections.listen()
        self._scheduler = scheduler
        self._guard = guard
        self._clock = guard.clock
        self._limit = time_limit(guard.limit_s)
        self._cpu_time = guard.cpu_time
        self._wall_time = perf_counter
        self._is_watched = is_watched
        self._n_asked = 0
        self._process_id, self._pid = os.getpid, os.getpid()

    def decide(self, problem: SchedulingProblem) -> Decision:
        cpu_time, wall_time = self._cpu_time, self._wall_time
        gc_s, limit = _collections.total_s, self._limit
        fault: tuple[SchedulerFault, BaseException] | None = None
        before = self._arrays(problem)
        cpu_s = cpu_time() if cpu_time is not None else nan
        began_s = wall_time()
        try:
            limit.begin(began_s)
            try:
                try:
                    answer = self._scheduler.schedule(problem)
                    wall_s = wall_time() - began_s
                    if cpu_time is not None:
                        cpu_s = cpu_time() - cpu_s
                    gc_s = _collections.total_s - gc_s
                    answer = self._finish(problem, answer)
                    self._check_unchanged(problem, before)
                except (TimeLimitExceeded, SchedulerFault):
                    raise
                except WrongKind as error:
                    fault = SchedulerFault(RIGHT_KIND, str(error), self._clock.now_s), error
                except BaseException as error:
                    fault = self._fault_of(error, "schedule"), error
            finally:
                if self._process_id() != self._pid:
                    os._exit(0)  # the scheduler forked: end the copy of the testbed
                limit.end()
        except TimeLimitExceeded:
            name = f"{name_of(self._scheduler)}.schedule"
            message = f"{name} did not return within {limit.limit_s:g} s"
            raise SchedulerFault(RETURNS_IN_TIME, message, self._clock.now_s) from None
        if fault is not None:
            raise fault[0] from fault[1]
        return Decision(answer, wall_s, cpu_s, gc_s)

    def _finish(self, problem: SchedulingProblem, answer: Any) -> Any:
        """What is passed on of an answer; made under the time limit, since it may run the code of others."""
        return answer

    def _arrays(self, problem: SchedulingProblem) -> dict[str, bytes]:
        """Copies of what a scheduler must not change, for the first questions, and for some of all others."""
        n, self._n_asked = self._n_asked, self._n_asked + 1
        if not self._is_watched or (n > WATCHED and n % WATCHED):
            return {}
        return {name: np.asarray(array).tobytes() for name, array in problem.arrays().items()}

    def _check_unchanged(self, problem: SchedulingProblem, before: Mapping[str, bytes]) -> None:
        """Arrays are read-only, but the code of a scheduler can write into any memory."""
        if not before:
            return
        for name, array in problem.arrays().items():
            if np.asarray(array).tobytes() != before.get(name, np.asarray(array).tobytes()):
                message = f"the scheduler changed '{name}' of the problem"
                raise SchedulerFault(PROBLEM_UNTOUCHED, message, self._clock.now_s)

    def _fault_of(self, error: BaseException, method: str) -> SchedulerFault:
        name = f"{name_of(self._scheduler)}.{method}"
        return self._guard.fault_of(error, name, str(type(self._scheduler).__module__))


def count_of(schedule: object) -> int:
    """Numbers of assignments, starts and preemptions; 0 if it is not a schedule."""
    try:
        if isinstance(schedule, NodeSchedule):
            return len(schedule.starts)
        if isinstance(schedule, Schedule):
            return len(schedule.assignments) + len(schedule.preemptions)
    except TypeError:
        pass
    return 0


class GuardedScheduler:
    """A scheduler whose decisions are noted, and whose faults end its run with a report.

    `witness`, a second and untimed instance, must make the same decisions (the determinism check). For
    callers without a resource manager, answers are checked, with messages that begin with a `context`, in
    which {now_s} is the time of the problem. Raises SchedulerFault if the scheduler breaks a rule of conduct,
    or decides differently from the witness.
    """

    def __init__(
        self,
        respondent: Respondent,
        guard: Guard,
        witness: Respondent | None = None,
        context: str | None = None,
    ) -> None:
        self._context = context
        self._respondent = respondent
        self._witness = witness
        self._clock = guard.clock
        self._note = guard.note
        self._charge = guard.charge
        self._decision_log = guard.decision_log
        self._logged: dict[JobId, str | tuple[int, float]] = {}
        """The last wait reason of each job, or its resource and start time."""

    def schedule(self, problem: SchedulingProblem) -> Any:
        now_s, n_jobs = self._clock.now_s, problem.n_jobs
        schedule, wall_s, cpu_s, gc_s = self._respondent.decide(problem)
        self._note((now_s, n_jobs, problem.n_places, count_of(schedule), wall_s, cpu_s, gc_s))
        if self._witness is not None:
            self._compare(problem, schedule, self._witness.decide(problem).answer)
        if self._decision_log is not None:
            self._log(problem, schedule, now_s, self._decision_log)
        if self._charge is not None:
            self._charge(n_jobs, problem.n_places, wall_s - gc_s)
        if self._context is not None and (violation := problem.violation(schedule)) is not None:
            context = self._context.format(now_s=problem.now_s)
            raise SchedulerFault.of(violation, self._clock.now_s, context)
        return schedule

    def _log(self, problem: SchedulingProblem, schedule: Answer, now_s: float, log: TraceRecorder) -> None:
        if problem.violation(schedule):
            return  # the manager will reject it
        logged, lines = self._logged, dict[str, str]()
        jobs = problem.jobs
        ids = jobs.ids if isinstance(jobs, LazyJobs) else [job.id for job in jobs]
        for i, text in all_in_detail(schedule.wait_reasons):
            # Many jobs have the same; other classes of texts are the scheduler's own code.
            reason = (lines.get(text) if type(text) is str else None) or one_line(text)
            if type(text) is str:
                lines[text] = reason
            if logged.get(ids[i]) != reason:
                logged[ids[i]] = reason
                log.note_reason(now_s, ids[i], reason)
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
            where = "when to ask again, or what to preempt" if job is None else f"first for job {job}"
            message = f"for the same problem, two instances decided differently, {where}"
            raise SchedulerFault(DETERMINISTIC, message, self._clock.now_s, job)
