"""Ctrl-C is not lost where nobody can raise it.

Python drops what is raised in a callback of the garbage collector or of a weak reference, and while libraries
are loaded and databases read there are many; some libraries catch whatever is raised.
"""

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
    """Called as the work goes on. Raises KeyboardInterrupt where there was one that went unheard."""
    global _was_told
    if _was_told:
        _was_told = False
        raise KeyboardInterrupt
