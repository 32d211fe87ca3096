"""Ctrl-C is not lost on a library that swallows it while it is loaded."""

from __future__ import annotations

import signal
from types import FrameType

_was_told = False


def _interrupted(_signal: int, _frame: FrameType | None) -> None:
    global _was_told
    _was_told = True
    raise KeyboardInterrupt


def remember_interrupts() -> None:
    """From now on; not where the process was told to ignore them, as one in the background is."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)


def stop_if_interrupted() -> None:
    """Called where the work begins. Raises KeyboardInterrupt where there was one that nobody heeded."""
    if _was_told:
        raise KeyboardInterrupt
