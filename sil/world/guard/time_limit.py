"""A limit on the time that a call may take."""

from __future__ import annotations

import atexit
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


class _Timer:
    """The one timer that a process has."""

    __slots__ = ("announce", "deadline_s", "has_expired", "limit_s", "rings_s")

    def __init__(self) -> None:
        self.announce: Callable[[float], None] | None = None
        """To the watchdog, if there is one."""
        self.deadline_s = inf
        """Of the block that goes on; of several, one in another, the least."""
        self.limit_s = inf
        self.rings_s = inf
        """Infinite = it is not set."""
        self.has_expired = False

    def set(self, now_s: float, for_s: float) -> None:
        self.rings_s = now_s + for_s
        signal.signal(signal.SIGALRM, _ring)
        signal.setitimer(signal.ITIMER_REAL, for_s)


_timer = _Timer()
# A timer that is left to run would kill a process that is about to end: its handlers are gone by then.
atexit.register(signal.setitimer, signal.ITIMER_REAL, 0.0)


def announce_deadlines_to(watchdog: Callable[[float], None]) -> None:
    """Tell `watchdog` at what time (of `time.monotonic`) to give this process up; 0 = no call goes on."""
    _timer.announce = watchdog


class time_limit:  # noqa: N801 (it is used like a function)
    """Raise TimeLimitExceeded if the block takes longer than `limit_s` of wall time.

    It interrupts Python code, sleeps and waits by a signal, again and again where the block swallows the
    exception. Code that never comes back to Python is beyond a signal's reach, and left to a watchdog in
    another process. Signals need the main thread: a limit that is made elsewhere is none.

    There are many blocks and few that take long, so a timer that has been set is left to run on: whoever it
    finds sets it again for the time that is left. An ordinary block sets no timer.
    """

    __slots__ = ("_around", "_is_kept", "_own_limit_s")

    def __init__(self, limit_s: float) -> None:
        self._own_limit_s = limit_s
        self._is_kept = get_ident() == main_thread().ident

    def begin(self, now_s: float) -> None:
        """The block begins, at a time of `time.perf_counter`."""
        if not self._is_kept:
            return
        timer = _timer
        self._around = timer.deadline_s, timer.limit_s
        timer.limit_s = self._own_limit_s
        deadline_s = now_s + self._own_limit_s
        if deadline_s < timer.deadline_s:
            timer.deadline_s = deadline_s
        timer.has_expired = False
        if not now_s < timer.rings_s <= deadline_s:
            timer.set(now_s, self._own_limit_s)
        if timer.announce is not None:
            timer.announce(time.monotonic() + GRACE * self._own_limit_s + GRACE_S)

    def end(self) -> None:
        """The block ends. Raises TimeLimitExceeded where it took too long and did not let that through."""
        if not self._is_kept:
            return
        timer = _timer
        timer.deadline_s, timer.limit_s = self._around
        if timer.announce is not None:
            timer.announce(0.0)
        if timer.has_expired:
            timer.has_expired = False
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


def _ring(_signal: int, _frame: FrameType | None) -> None:
    """The timer rings: too early, for nobody, or for a block that has taken too long."""
    now_s, deadline_s = time.perf_counter(), _timer.deadline_s
    _timer.rings_s = inf
    if deadline_s == inf:
        return
    if now_s < deadline_s:
        _timer.set(now_s, deadline_s - now_s)
        return
    _timer.has_expired = True
    _timer.set(now_s, min(_timer.limit_s, AGAIN_S))
    raise TimeLimitExceeded
