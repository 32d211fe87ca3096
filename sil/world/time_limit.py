"""A limit on the time that a call may take."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import TextIO

GRACE = 2


class TimeLimitExceeded(BaseException):
    """A call did not return in time. No Exception, so that the call itself does not swallow it."""


@contextmanager
def time_limit(limit_s: float) -> Iterator[None]:
    """Raise TimeLimitExceeded if the block takes longer than `limit_s` of wall time.

    It interrupts Python code, sleeps and waits by a signal, again and again where the block swallows the
    exception. Code that never comes back to Python is beyond a signal's reach: in a worker process, where
    that costs nobody else, the process is ended after GRACE times the limit and some seconds. Signals need
    the main thread of the process; elsewhere there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    expired = False

    def expire(_signal: int, _frame: FrameType | None) -> None:
        nonlocal expired
        expired = True
        raise TimeLimitExceeded

    in_worker = multiprocessing.parent_process() is not None
    if in_worker:
        faulthandler.dump_traceback_later(GRACE * limit_s + 2.0, exit=True, file=_nowhere())
    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, limit_s, min(limit_s, 1.0))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        if in_worker:
            faulthandler.cancel_dump_traceback_later()
    if expired:
        raise TimeLimitExceeded


@cache
def _nowhere() -> TextIO:
    """Where the traceback goes with which a process is ended: the sweep reports it in one sentence."""
    return open(os.devnull, "w")
