"""Asking a scheduler under test: a stopwatch and a time limit around the only calls of its code."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping
from math import nan
from time import perf_counter, process_time
from typing import Any, NamedTuple, Protocol

import numpy as np

from scheduler.model import NodeSchedule, Schedule
from scheduler.ports import Clock, Scheduler
from scheduler.problem import SchedulingProblem
from scheduler.rules import PROBLEM_UNTOUCHED, RETURNS_IN_TIME, RIGHT_KIND, WrongKind
from sil.world.guard.faults import SchedulerFault, fault_of, name_of
from sil.world.guard.time_limit import TimeLimitExceeded, time_limit

MAKING_LIMIT_S = 120.0
"""Time to import a scheduler, make an instance or prepare it; its libraries may be large."""


WATCHED = 64
"""The first questions, and then one in this many, are compared with copies, which takes time."""


class Decision(NamedTuple):
    """An answer, its number of assignments, starts and preemptions, and what it took; garbage collection
    (`gc_s`) is part of both times. CPU time is NaN where it is not measured."""

    answer: Any
    n_decisions: int
    wall_s: float
    cpu_s: float
    gc_s: float


class Respondent(Protocol):
    """Where a scheduler is asked: in this process or in one of its own."""

    def decide(self, problem: SchedulingProblem) -> Decision:
        """Raises SchedulerFault."""
        ...

    def load_for_requests(self) -> None:
        """See `scheduler.ports.Scheduler`. Raises SchedulerFault."""
        ...


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

_copies = 0
"""Number of forks between the first process and this one."""


def _count_copy() -> None:
    global _copies
    _copies += 1


os.register_at_fork(after_in_child=_count_copy)


def _as_it_is(_problem: SchedulingProblem, answer: Any) -> Any:
    return answer


class TimedScheduler:
    """A scheduler in this process: timed, and under a time limit.

    The clocks are kept from before the scheduler is imported: libraries that freeze the time replace those of
    modules. `finish(problem, answer)` makes of an answer what is passed on, still under the time limit, since
    to read an answer may run the scheduler's code. One that is not built in `is_watched`, whether it changes
    the problem. Raises SchedulerFault if it raises or exceeds the limit.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        limit_s: float,
        cpu_time: Callable[[], float] | None = process_time,
        finish: Callable[[SchedulingProblem, Any], Any] = _as_it_is,
        is_watched: bool = False,
    ) -> None:
        _collections.listen()
        self._scheduler = scheduler
        self._clock = clock
        self._limit = time_limit(limit_s)
        self._cpu_time = cpu_time
        self._wall_time = perf_counter
        self._is_watched = is_watched
        self._n_asked = 0
        self._finish = finish
        self._copies = _copies

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
                if _copies != self._copies:
                    os._exit(0)  # the scheduler forked: end the copy of the testbed
                limit.end()
        except TimeLimitExceeded:
            name = f"{name_of(self._scheduler)}.schedule"
            message = f"{name} did not return within {limit.limit_s:g} s"
            raise SchedulerFault(RETURNS_IN_TIME, message, self._clock.now_s) from None
        if fault is not None:
            raise fault[0] from fault[1]
        return Decision(answer, count_of(answer), wall_s, cpu_s, gc_s)

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

    def load_for_requests(self) -> None:
        load = getattr(self._scheduler, "load_for_requests", None)
        if load is None:
            return
        try:
            with time_limit(max(self._limit.limit_s, MAKING_LIMIT_S)):
                load()
        except TimeLimitExceeded:
            text = f"{name_of(self._scheduler)}.load_for_requests did not return"
            raise SchedulerFault(RETURNS_IN_TIME, text, self._clock.now_s) from None
        except BaseException as error:
            raise self._fault_of(error, "load_for_requests") from error

    def _fault_of(self, error: BaseException, method: str) -> SchedulerFault:
        kind = type(self._scheduler)
        name = f"{name_of(self._scheduler)}.{method}"
        return fault_of(error, name, str(kind.__module__), self._clock.now_s)


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
