"""Worker processes, which start with the large libraries imported and without the state of this process.

Each leads a process group, so that nothing is left of a scheduler under test that forks.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
import traceback
from contextlib import suppress
from functools import cache
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.forkserver import ensure_running
from multiprocessing.util import Finalize
from threading import Thread, main_thread
from threading import enumerate as enumerate_threads

LOADED = ["scheduler.mapping.pjs", "scipy.special", "site_db.site_file.importing", "site_db.experience"]
"""Imported by the server that forks workers. Not Polars, which starts threads when it is imported."""

_LAST = -1_000
"""Priority of the last finalizer of a worker."""


@cache
def worker_context() -> ForkServerContext | SpawnContext:
    """Fork servers where the system has them, else new processes."""
    # Schedulers under test may iterate over sets of strings: the same seed, the same order.
    os.environ["PYTHONHASHSEED"] = "0"
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    return context


def begin_early() -> None:
    """Start the fork server, which imports its libraries while this process does."""
    if isinstance(worker_context(), ForkServerContext):
        ensure_running()


def lead_own_group() -> None:
    """Called first in each worker. Its group ends with the parent process, for whatever reason that ends."""
    os.setpgid(0, 0)
    Finalize(None, end_without_threads, exitpriority=_LAST)
    Thread(target=_end_with_parent, daemon=True).start()


def end_without_threads() -> None:
    """Called when a process ends: exit at once if it would wait for threads of a scheduler under test."""
    if not any(map(_is_waited_for, enumerate_threads())):
        return
    error, code = sys.exc_info()[1], 0
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        traceback.print_exc()
        code = 1
    if multiprocessing.parent_process() is None:
        end_workers()
        atexit._run_exitfuncs()  # of which workers have none
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _is_waited_for(thread: Thread) -> bool:
    """Whether the process waits for a thread when it ends; threads of pools are told to end."""
    of_a_pool = type(thread).__module__.startswith("concurrent.")
    return not (thread.daemon or thread is main_thread() or of_a_pool)


def end_group(leader: int) -> None:
    """Kill a worker and the processes that it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def end_workers() -> None:
    """Kill all workers of this process."""
    for process in multiprocessing.active_children():
        if process.pid is not None:
            end_group(process.pid)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        end_group(os.getpid())
