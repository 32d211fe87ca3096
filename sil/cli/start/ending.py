"""The end of a command's process."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import NoReturn


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


def end_without_output(error: OSError) -> NoReturn:
    """End a command that has no room to write to standard output, with exit code 2. Raises an error that is
    another one."""
    from sil.experiment.output_folder import no_room

    if not no_room(error):
        raise error
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())  # for what is still to be written
    print(f"Error: standard output cannot be written: {error.strerror}; make room there", file=sys.stderr)
    sys.exit(2)
