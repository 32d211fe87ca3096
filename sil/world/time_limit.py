"""A limit on the time that a call may take."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

GRACE = 2
GRACE_S = 2.0
"""A call that no signal reaches may take GRACE times its limit and GRACE_S more, then it is given up."""


class TimeLimitExceeded(BaseException):
    """A call did not return in time. No Exception, so that the call itself does not swallow it."""


def _to_nobody(_deadline_s: float) -> None:
    """There is no watchdog."""


_announce: Callable[[float], None] = _to_nobody


def announce_deadlines_to(watchdog: Callable[[float], None]) -> None:
    """Tell `watchdog` at what time (of `time.monotonic`) to give this process up; 0 = no call goes on."""
    global _announce
    _announce = watchdog


@contextmanager
def time_limit(limit_s: float) -> Iterator[None]:
    """Raise TimeLimitExceeded if the block takes longer than `limit_s` of wall time.

    It interrupts Python code, sleeps and waits by a signal, again and again where the block swallows the
    exception. Code that never comes back to Python is beyond a signal's reach, and left to a watchdog in
    another process. Signals need the main thread; elsewhere there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    expired = False

    def expire(_signal: int, _frame: FrameType | None) -> None:
        nonlocal expired
        expired = True
        raise TimeLimitExceeded

    _announce(time.monotonic() + GRACE * limit_s + GRACE_S)
    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, limit_s, min(limit_s, 1.0))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        _announce(0.0)
    if expired:
        raise TimeLimitExceeded
