"""The end of a command's process."""

from __future__ import annotations

import atexit
import os
import sys
import threading


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
