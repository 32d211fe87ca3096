"""Runs items in worker processes of this computer.

A worker starts with the large libraries imported and without the state of this process. It has a fixed hash
seed, a main thread (which the time limit of decisions needs) and a process group, so that nothing is left of
a scheduler that forks. It runs one item at a time, so if it dies, the item at fault is known.
"""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.forkserver import ensure_running
from multiprocessing.util import Finalize
from threading import Thread, main_thread
from threading import enumerate as enumerate_threads
from typing import Any

from sil.workers.executor import Concurrent, Died, Failed, Item, Outcome, Report, Result, reports_to
from sil.world.guard.time_limit import announce_deadlines_to

LIBRARIES = [
    "scheduler.managers.mapping_manager",
    "scheduler.managers.starting_manager",
    "scipy.special",
    "site_db.site_file.importing",
    "site_db.experience",
]
"""Imported by the server that forks workers. Not Polars, which starts threads when it is imported."""
PREDICTION = ["scheduler.time_shared.loras", "scheduler.time_shared.prediction.by_name"]
COMPILED = ["scheduler.mapping.pjs", "scheduler.free_nodes.identical_nodes", *PREDICTION]
"""Imported too, where it is not known which schedulers will run: compiled functions."""
NOTES = "sil.workers.compilation_notes"

_LAST = -1_000
"""Priority of the last finalizer of a worker."""

LOOK_EVERY_S = 0.5
"""How often the watchdog checks whether a decision has passed its deadline."""
END_WITHIN_S = 5.0
KILLED_FROM_OUTSIDE = {-signal.SIGKILL, -signal.SIGTERM, 255}
"""Exit codes after which an item is tried again; 255: the server that forks workers died."""
STOP = b""


class Processes(Concurrent):
    """Up to `workers` processes, which start when they are needed and are reused."""

    def __init__(self, workers: int) -> None:
        self.slots = workers
        self._idle: list[_Worker] = []
        self._busy: dict[_Worker, Item] = {}

    def _start(self, item: Item) -> None:
        pickled = pickle.dumps(item)
        worker = self._idle.pop() if self._idle and not item.fresh else _Worker()
        self._busy[worker] = item
        worker.send(pickled)

    def _wait(self) -> Sequence[tuple[Item, Outcome]]:
        handles = {handle: worker for worker in self._busy for handle in worker.handles}
        while True:
            ready = {handles[handle] for handle in wait(list(handles), LOOK_EVERY_S)}
            for worker in self._busy:
                worker.end_if_overdue()
            outcomes = [(worker, outcome) for worker in ready if (outcome := worker.received()) is not None]
            if outcomes:
                return [(self._settled(worker, outcome), outcome) for worker, outcome in outcomes]

    def _settled(self, worker: _Worker, outcome: Outcome) -> Item:
        """The item of an outcome. Its worker is free for the next one, or ended."""
        if isinstance(outcome, Report):
            return self._busy[worker]
        item = self._busy.pop(worker)
        if isinstance(outcome, Died) or item.fresh:
            _end([worker])
        else:
            self._idle.append(worker)
        return item

    def _abandon(self) -> None:
        for worker in self._busy:
            worker.kill()
        _end(list(self._busy))
        self._busy.clear()

    def close(self) -> None:
        self._abandon()
        _end(self._idle)
        self._idle.clear()


class _Worker:
    """A process and the connection to it."""

    def __init__(self) -> None:
        # Dask's nanny makes its worker a daemon, which may not have children; ours end with their parent.
        if multiprocessing.current_process().daemon:
            multiprocessing.current_process().daemon = False
        context = worker_context()
        self._deadline_s = context.RawValue("d", 0.0)
        self._is_overdue = False
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, self._deadline_s))
        self._process.start()
        theirs.close()

    @property
    def handles(self) -> tuple[Any, ...]:
        """One of them becomes ready when the worker sends something, or ends."""
        return self._connection, self._process.sentinel

    def send(self, pickled: bytes) -> None:
        with suppress(OSError):  # it has ended, as its handles will show
            self._connection.send_bytes(pickled)

    def received(self) -> Outcome | None:
        """The next outcome, if there is one."""
        with suppress(EOFError, OSError):
            if self._connection.poll():
                outcome: Outcome = pickle.loads(self._connection.recv_bytes())
                return outcome
            if self._process.is_alive():
                return None
        self.kill()
        self._process.join()
        return Died(may_retry=not self._is_overdue and self._process.exitcode in KILLED_FROM_OUTSIDE)

    def end_if_overdue(self) -> None:
        """Kill the worker if its decision, which no signal has ended, has passed the deadline."""
        if 0.0 < self._deadline_s.value < time.monotonic():
            self._is_overdue = True
            self.kill()

    def kill(self) -> None:
        assert self._process.pid is not None
        end_group(self._process.pid)

    def join(self) -> None:
        """Wait for the end of the process; also ends what it has started."""
        self._process.join(END_WITHIN_S)
        self.kill()
        self._process.join()
        self._connection.close()


def _end(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        worker.send(STOP)
    for worker in workers:
        worker.join()


def _work(connection: Connection, deadline_s: Any) -> None:
    """Run in the worker: items as they come, until STOP."""
    lead_own_group()
    os.environ["POLARS_MAX_THREADS"] = "1"  # the workers themselves are the threads

    def announce(at_s: float) -> None:
        deadline_s.value = at_s

    announce_deadlines_to(announce)
    os.register_at_fork(after_in_child=connection.close)  # a scheduler may fork
    this_process = os.getpid()
    while (pickled := connection.recv_bytes()) != STOP:
        with reports_to(lambda value: connection.send_bytes(pickle.dumps(Report(value)))):
            outcome = _outcome(pickled)
        if os.getpid() != this_process:
            os._exit(0)  # the scheduler forked, and this is the copy
        connection.send_bytes(outcome)


def _outcome(pickled: bytes) -> bytes:
    """The pickled outcome of a pickled item."""
    try:
        return pickle.dumps(Result(pickle.loads(pickled)()))
    except BaseException as error:
        error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        with suppress(Exception):
            failed = pickle.dumps(Failed(error))
            pickle.loads(failed)
            return failed
        return pickle.dumps(Failed(RuntimeError(traceback.format_exc())))


@cache
def worker_context() -> ForkServerContext | SpawnContext:
    """Fork servers where the system has them, else new processes."""
    # Schedulers under test may iterate over sets of strings: the same seed, the same order.
    os.environ["PYTHONHASHSEED"] = "0"
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LIBRARIES + COMPILED)
    return context


def begin_early(schedulers: Sequence[str] = COMPILED) -> None:
    """Start the fork server, which imports its libraries and the modules `schedulers` while this process
    imports its own. The server says for both that something has to be compiled."""
    context = worker_context()
    if isinstance(context, ForkServerContext):
        context.set_forkserver_preload([NOTES, *LIBRARIES, *schedulers])
        ensure_running()
        logging.getLogger("scheduler.compiled").addFilter(_says_the_server)


def _says_the_server(_record: logging.LogRecord) -> bool:
    return False


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
