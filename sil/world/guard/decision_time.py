"""The time that decisions take: a limit on the wall time of a call, and their costs in simulated time."""

from __future__ import annotations

import atexit
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, inf
from threading import get_ident, main_thread
from time import monotonic, perf_counter
from types import FrameType, TracebackType

from sil.world.events import SimClock
from sil.world.guard.faults import COST_IS_KNOWN, SchedulerFault

GRACE = 2
GRACE_S = 2.0
"""A call that no signal interrupts is abandoned after GRACE times its limit plus GRACE_S."""

AGAIN_S = 1.0
"""A call that swallows the exception gets it again after this time, or after its limit if that is less."""


LONGEST_S = 1e8
"""A timer is set for at most three years; the clocks of computers know no infinity."""


class TimeLimitExceeded(BaseException):
    """A call did not return in time. Not an Exception, so that `except Exception` does not swallow it."""


class _Timer:
    """The only timer of a process."""

    __slots__ = ("announce", "deadline_s", "has_expired", "limit_s", "monotonic", "perf_counter", "rings_s")

    def __init__(self) -> None:
        self.announce: Callable[[float], None] | None = None
        """Passes deadlines to the watchdog, if there is one."""
        self.deadline_s = inf
        """The deadline of the current block; of nested blocks, the earliest."""
        self.limit_s = inf
        self.rings_s = inf
        """When the timer rings; infinite = not set."""
        self.has_expired = False
        # Kept from before a scheduler is imported: libraries that freeze the time replace those of modules.
        self.monotonic, self.perf_counter = monotonic, perf_counter

    def set(self, now_s: float, for_s: float) -> None:
        for_s = min(for_s, LONGEST_S)
        self.rings_s = now_s + for_s
        signal.signal(signal.SIGALRM, _ring)
        signal.setitimer(signal.ITIMER_REAL, for_s)


_timer = _Timer()
# A timer that is still set would kill a process that is exiting, whose handlers have been removed.
atexit.register(signal.setitimer, signal.ITIMER_REAL, 0.0)


def announce_deadlines_to(watchdog: Callable[[float], None]) -> None:
    """Give `watchdog` the time (of `time.monotonic`) at which to kill this process; 0 = none."""
    _timer.announce = watchdog


def has_watchdog() -> bool:
    """Whether another process ends this one if a deadline passes."""
    return _timer.announce is not None


class time_limit:  # noqa: N801 (it is used like a function)
    """Raise TimeLimitExceeded if the block takes longer than `limit_s` of wall time.

    A signal interrupts Python code, sleeps and waits, repeatedly if the block swallows the exception. Code
    that never returns to Python is left to a watchdog in another process. Signals need the main thread: in
    another thread there is no limit.

    Blocks are frequent and rarely long, so a timer stays set after its block; when it rings early, it is set
    again for the remaining time. An ordinary block sets no timer.
    """

    __slots__ = ("_is_enforced", "_outer", "limit_s")

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._is_enforced = get_ident() == main_thread().ident

    def begin(self, now_s: float) -> None:
        """Begin the block, at a time of `time.perf_counter`."""
        if not self._is_enforced:
            return
        timer = _timer
        self._outer = timer.deadline_s, timer.limit_s
        timer.limit_s = self.limit_s
        deadline_s = now_s + self.limit_s
        if deadline_s < timer.deadline_s:
            timer.deadline_s = deadline_s
        timer.has_expired = False
        if not now_s < timer.rings_s <= deadline_s:
            timer.set(now_s, self.limit_s)
        if timer.announce is not None:
            timer.announce(timer.monotonic() + GRACE * self.limit_s + GRACE_S)

    def end(self) -> None:
        """End the block. Raises TimeLimitExceeded if it was too long and swallowed the exception."""
        if not self._is_enforced:
            return
        timer = _timer
        timer.deadline_s, timer.limit_s = self._outer
        if timer.announce is not None:
            timer.announce(0.0)
        if timer.has_expired:
            timer.has_expired = False
            raise TimeLimitExceeded

    def __enter__(self) -> None:
        self.begin(_timer.perf_counter())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


def _ring(_signal: int, _frame: FrameType | None) -> None:
    """The timer rings: early, without a block, or for a block that has taken too long."""
    now_s, deadline_s = _timer.perf_counter(), _timer.deadline_s
    _timer.rings_s = inf
    if deadline_s == inf:
        return
    if now_s < deadline_s:
        _timer.set(now_s, deadline_s - now_s)
        return
    _timer.has_expired = True
    _timer.set(now_s, min(_timer.limit_s, AGAIN_S))
    raise TimeLimitExceeded


STEPS_PER_S = 2**20
"""Costs are charged in whole steps of about a microsecond, which add exactly to times in whole seconds.
Otherwise a rounding error could make a run exceed its estimate."""

DecisionCost = Callable[[int, int, float], float]
"""Simulated seconds of a decision, by its numbers of jobs and resources and its seconds of wall time."""


def fixed(seconds: float) -> DecisionCost:
    """The same cost for each decision."""
    _check("seconds", seconds)
    return lambda n_jobs, n_places, measured_s: seconds


@dataclass(frozen=True)
class Measured:
    """The wall time, times a factor that represents another head node. It differs from run to run."""

    factor: float = 1.0

    def __post_init__(self) -> None:
        _check("factor", self.factor)

    def __call__(self, n_jobs: int, n_places: int, measured_s: float) -> float:
        return self.factor * measured_s


def modelled(seconds: float, a: float = 1.0, b: float = 1.0) -> DecisionCost:
    """A growth law: seconds x jobs^a x resources^b, as `sil overhead` fits it."""
    _check("seconds", seconds)

    def charged_s(n_jobs: int, n_places: int, measured_s: float) -> float:
        try:
            return float(seconds * n_jobs**a * n_places**b)
        except OverflowError:
            return inf
        except ZeroDivisionError:
            return 0.0  # a negative exponent and no jobs

    return charged_s


def replayed(costs_s: Iterator[float]) -> DecisionCost:
    """The costs of an earlier run, decision by decision; after its last one infinite, and so a fault."""
    return lambda n_jobs, n_places, measured_s: next(costs_s, inf)


class Charge:
    """Charges each decision, in whole steps; calls `note` with the time of the request and the cost."""

    def __init__(self, cost: DecisionCost, clock: SimClock, note: Callable[[float, float], None]) -> None:
        self.cost = cost
        self._clock = clock
        self._note = note

    def __call__(self, n_jobs: int, n_places: int, measured_s: float) -> None:
        asked_s = self._clock.now_s
        steps = STEPS_PER_S * self.cost(n_jobs, n_places, measured_s)
        if steps == inf:
            message = f"no cost can be charged for a decision on {n_jobs} jobs and {n_places} resources"
            raise SchedulerFault(COST_IS_KNOWN, message, asked_s)
        cost_s = ceil(steps) / STEPS_PER_S
        self._note(asked_s, cost_s)
        self._clock.wait_until(asked_s + cost_s)


def _check(name: str, value: float) -> None:
    if not 0.0 <= value < inf:
        raise ValueError(f"'{name}' is {value:g}; expected 0 or more")
