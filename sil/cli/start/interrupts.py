"""Interrupts (Ctrl-C) that get lost: Python drops exceptions raised in callbacks of the garbage collector and
of weak references, frequent while libraries are loaded and databases are read; and some libraries catch every
exception.
"""

from __future__ import annotations

import signal
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
    """Raises KeyboardInterrupt if an earlier one got lost; called while a command makes progress."""
    global _is_interrupted
    if _is_interrupted:
        _is_interrupted = False
        raise KeyboardInterrupt
