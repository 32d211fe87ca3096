"""Ctrl-C must not get lost.

Python drops exceptions raised in callbacks of the garbage collector and of weak references, frequent
while libraries are loaded and databases are read; and some libraries catch every exception.
"""

from __future__ import annotations

import signal
from types import FrameType

_is_pending = False


def _interrupted(_signal: int, _frame: FrameType | None) -> None:
    global _is_pending
    _is_pending = True
    raise KeyboardInterrupt


def remember_interrupts() -> None:
    """Install the handler, unless the process ignores interrupts, as background processes do."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)


def stop_if_interrupted() -> None:
    """Called with every progress update. Raises KeyboardInterrupt if an earlier one got lost."""
    global _is_pending
    if _is_pending:
        _is_pending = False
        raise KeyboardInterrupt
