"""The process of a command: interrupts that get lost, and its end.

Python drops exceptions raised in callbacks of the garbage collector and of weak references, which are
frequent while libraries are loaded and databases are read; and some libraries catch every exception.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from types import FrameType

_is_interrupted = False


def remember_interrupts() -> None:
    """Install the handler of Ctrl-C, unless the process ignores interrupts, as background processes do."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    global _is_interrupted
    _is_interrupted = True
    raise KeyboardInterrupt


def stop_if_interrupted() -> None:
    """Raise KeyboardInterrupt if an earlier one got lost; called while a command makes progress."""
    global _is_interrupted
    if _is_interrupted:
        _is_interrupted = False
        raise KeyboardInterrupt


def end_now(done: SystemExit) -> None:
    """End the process, without taking its objects apart one by one, which takes a tenth of a short command.

    Returns where that would lose something: other threads, output that cannot be written, a message.
    """
    if threading.active_count() > 1 or not isinstance(done.code, int | None):
        return
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # closed before the command began
                stream.flush()
    except OSError:
        return
    os._exit(done.code or 0)
