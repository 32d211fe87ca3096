"""A limit on the time that a call may take."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TimeLimitExceeded(BaseException):
    """A call did not return in time. No Exception, so that the call itself does not swallow it."""


@contextmanager
def time_limit(limit_s: float) -> Iterator[None]:
    """Raise TimeLimitExceeded if the block takes longer than `limit_s` of wall time.

    It interrupts Python code, sleeps and waits by a signal, again and again where the block swallows the
    exception. Code that never returns to Python is beyond its reach: the sweep ends such a process. Signals
    need the main thread of the process; elsewhere there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    expired = False

    def expire(_signal: int, _frame: FrameType | None) -> None:
        nonlocal expired
        expired = True
        raise TimeLimitExceeded

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, limit_s, min(limit_s, 1.0))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    if expired:
        raise TimeLimitExceeded
