"""A limit on the time that a call may take."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from math import inf
from threading import get_ident, main_thread
from types import FrameType, TracebackType

GRACE = 2
GRACE_S = 2.0
"""A call that no signal reaches may take GRACE times its limit and GRACE_S more, then it is given up."""

AGAIN_S = 1.0
"""Where a call swallows the exception, it is raised again so much later; after its limit, if that is less."""


class TimeLimitExceeded(BaseException):
    """A call did not return in time. No Exception, so that the call itself does not swallow it."""


_announce: Callable[[float], None] | None = None
"""To the watchdog, if there is one."""


def announce_deadlines_to(watchdog: Callable[[float], None]) -> None:
    """Tell `watchdog` at what time (of `time.monotonic`) to give this process up; 0 = no call goes on."""
    global _announce
    _announce = watchdog


class time_limit:  # noqa: N801 (it is used like a function)
    """Raise TimeLimitExceeded if the block takes longer than `limit_s` of wall time.

    It interrupts Python code, sleeps and waits by a signal, again and again where the block swallows the
    exception. Code that never comes back to Python is beyond a signal's reach, and left to a watchdog in
    another process. Signals need the main thread: a limit that is made elsewhere is none.

    There are many blocks and few that take long, so a timer that has been set is left to run on: whoever it
    finds sets it again for the time that is left. An ordinary block sets no timer.
    """

    _deadline_s = inf
    """Of the block that goes on; of several, one in another, the least."""
    _limit_s = inf
    _rings_s = inf
    """When the timer does; infinite = it is not set."""
    _has_expired = False

    __slots__ = ("_around", "_is_kept", "_own_limit_s")

    def __init__(self, limit_s: float) -> None:
        self._own_limit_s = limit_s
        self._is_kept = get_ident() == main_thread().ident

    def begin(self, now_s: float) -> None:
        """The block begins, at a time of `time.perf_counter`."""
        cls = time_limit
        if not self._is_kept:
            return
        self._around = cls._deadline_s, cls._limit_s
        deadline_s = now_s + self._own_limit_s
        cls._limit_s = self._own_limit_s
        if deadline_s < cls._deadline_s:
            cls._deadline_s = deadline_s
        cls._has_expired = False
        if not now_s < cls._rings_s <= deadline_s:
            _set_timer(now_s, self._own_limit_s)
        if _announce is not None:
            _announce(time.monotonic() + GRACE * self._own_limit_s + GRACE_S)

    def end(self) -> None:
        """The block ends. Raises TimeLimitExceeded where it took too long and did not let that through."""
        if not self._is_kept:
            return
        time_limit._deadline_s, time_limit._limit_s = self._around
        if _announce is not None:
            _announce(0.0)
        if time_limit._has_expired:
            time_limit._has_expired = False
            raise TimeLimitExceeded

    def __enter__(self) -> None:
        self.begin(time.perf_counter())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()


def _set_timer(now_s: float, for_s: float) -> None:
    time_limit._rings_s = now_s + for_s
    signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, for_s)


def _ring(_signal: int, _frame: FrameType | None) -> None:
    """The timer rings: too early, for nobody, or for a block that has taken too long."""
    now_s, deadline_s = time.perf_counter(), time_limit._deadline_s
    time_limit._rings_s = inf
    if deadline_s == inf:
        return
    if now_s < deadline_s:
        _set_timer(now_s, deadline_s - now_s)
        return
    time_limit._has_expired = True
    _set_timer(now_s, min(time_limit._limit_s, AGAIN_S))
    raise TimeLimitExceeded
