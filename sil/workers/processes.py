"""Runs items in worker processes of this computer.

A worker starts with the large libraries imported and without the state of this process. It has a fixed hash
seed, a main thread (which the time limit of decisions needs) and a process group. It runs one item at a time,
so if it dies, the item that it ran is known.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import socket
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.forkserver import ensure_running
from multiprocessing.util import Finalize
from threading import Thread
from typing import Any

from sil.workers.descendants import kill_descendants
from sil.workers.executor import (
    Concurrent,
    Died,
    Failed,
    Item,
    Outcome,
    Report,
    Result,
    reports_to,
    tried,
)
from sil.workers.main_module import script_is_not_imported
from sil.workers.nursery import Nursery, adopt_orphans, begun, serve
from sil.workers.servers import forget_safe_path, starting
from sil.world.guard.faults import KILLED, PROCESS_SURVIVES
from sil.world.guard.time_limit import announce_deadlines_to

LIBRARIES = [
    "scheduler.managers.mapping_manager",
    "scheduler.managers.starting_manager",
    "scipy.special",
    "site_db.site_file.importing",
    "site_db.experience",
    "psutil",
]
"""Imported by the server that forks workers. Not Polars, which starts threads when it is imported."""
PREDICTION = ["scheduler.time_shared.loras", "scheduler.time_shared.predictors"]
COMPILED = ["scheduler.mapping.pjs", "scheduler.free_nodes.identical_nodes", *PREDICTION]
"""Imported too, where it is not known which schedulers will run: compiled functions."""
NOTES = "sil.workers.compilation_notes"
UNDISTURBED = "sil.workers.undisturbed"
"""Imported first."""

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
        worker = self._idle.pop() if self._idle else _Worker()
        self._busy[worker] = item
        worker.send(pickled)

    def _wait(self) -> Sequence[tuple[Item, Outcome]]:
        handles = {handle: worker for worker in self._busy for handle in worker.handles}
        while True:
            ready = {handles[handle] for handle in wait(list(handles), LOOK_EVERY_S)}
            for worker in self._busy:
                worker.end_if_overdue()
                worker.go_on()
            outcomes = [(worker, outcome) for worker in ready if (outcome := worker.received()) is not None]
            if outcomes:
                return [(self._settled(worker, outcome), outcome) for worker, outcome in outcomes]

    def _settled(self, worker: _Worker, outcome: Outcome) -> Item:
        """The item of an outcome. Its worker is free for the next one, or ended."""
        if isinstance(outcome, Report):
            return self._busy[worker]
        item = self._busy.pop(worker)
        if isinstance(outcome, Died):
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
        self._is_overdue = False
        with starting():
            self._deadline_s = context.RawValue("d", 0.0)
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
        code = self._process.exitcode
        if self._is_overdue:
            return Died("was ended, since a decision did not return in time")
        rule = KILLED if code in KILLED_FROM_OUTSIDE else PROCESS_SURVIVES
        return Died(f"ended with exit code {code}", rule)

    def end_if_overdue(self) -> None:
        """Kill the worker if its decision, which no signal has ended, has passed the deadline."""
        if 0.0 < self._deadline_s.value < time.monotonic():
            self._is_overdue = True
            self.kill()

    def go_on(self) -> None:
        """What a scheduler does may have stopped it."""
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self._process.pid or os.getpid(), signal.SIGCONT)

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
    global _nursery, _adopts_orphans
    forget_safe_path()
    _nursery = begun()
    adopt_orphans()
    _adopts_orphans = True
    lead_own_group()
    os.environ["POLARS_MAX_THREADS"] = "1"  # the workers themselves are the threads

    def announce(at_s: float) -> None:
        deadline_s.value = at_s

    announce_deadlines_to(announce)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which the fork server ignores
    while (pickled := _next(connection)) != STOP:
        with reports_to(lambda value: connection.send_bytes(pickle.dumps(Report(value)))):
            outcome = _outcome(pickled)
        connection.send_bytes(outcome)
    kill_descendants()


def _next(connection: Connection) -> bytes:
    """The next item; STOP if the command has ended without one, since it was killed."""
    try:
        return connection.recv_bytes()
    except (EOFError, OSError):
        return STOP


def _outcome(pickled: bytes) -> bytes:
    """The pickled outcome of a pickled item."""
    try:
        return pickle.dumps(Result(tried(pickle.loads(pickled))))
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
    context.set_forkserver_preload([UNDISTURBED, *LIBRARIES, *COMPILED])
    return context


_nursery: Nursery | None = None
_adopts_orphans = False
"""Whether this process is a worker, whose descendants are all those of its nursery."""


def nursery() -> Nursery:
    """That of this process: a worker has one from its beginning, others start one by the fork server."""
    global _nursery
    if _nursery is None:
        ours, theirs = socket.socketpair()
        process = worker_context().Process(target=_serve_as_nursery, args=(theirs,))
        with script_is_not_imported(), starting():  # it does nothing but fork
            process.start()
        theirs.close()
        _nursery = Nursery(ours, process.kill)
        Finalize(None, ours.close, exitpriority=0)
    return _nursery


def forget_nursery(gone: Nursery | None = None) -> None:
    """Something has killed or stopped this nursery (None: the present one); the next process gets another."""
    global _nursery
    if _nursery is None or gone not in (None, _nursery):
        return
    _nursery.abandon()
    _nursery = None
    if _adopts_orphans:
        kill_descendants()


def _serve_as_nursery(connection: socket.socket) -> None:
    connection.setblocking(True)
    serve(connection)


def begin_early(schedulers: Sequence[str] = COMPILED) -> None:
    """Start the fork server, which imports its libraries and the modules `schedulers` while this process
    imports its own. The server says for both that something has to be compiled."""
    context = worker_context()
    if isinstance(context, ForkServerContext):
        context.set_forkserver_preload([UNDISTURBED, NOTES, *LIBRARIES, *schedulers])
        with starting():
            ensure_running()
        logging.getLogger("scheduler.compiled").addFilter(_says_the_server)


def _says_the_server(_record: logging.LogRecord) -> bool:
    return False


def lead_own_group() -> None:
    """Called first in each worker. Its group ends with the parent process, for whatever reason that ends."""
    os.setpgid(0, 0)
    Thread(target=_end_with_parent, daemon=True).start()


def end_group(leader: int) -> None:
    """Kill a worker and the processes that it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        end_group(os.getpid())
