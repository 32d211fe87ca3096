"""Work in a process of its own: the same kind of process on this computer and beside a worker of Dask's.

It has what a run needs and a thread, or a worker of Dask's, does not give: the fixed hash seed, a main thread
for the time limit of decisions, a watchdog, and a death that is nobody else's.
"""

from __future__ import annotations

import multiprocessing
import socket
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from typing import TypeVar

from sil.experiment.provenance import code_and_data
from sil.workers.pool import finished, pool
from sil.workers.port import NoEngine, WorkerDied

Result = TypeVar("Result")


class Processes:
    """As many processes as work is asked for at once, from any thread; they are kept for what follows."""

    def __init__(self) -> None:
        self._idle: list[_Process] = []

    def run(self, work: Callable[[], Result]) -> Result:
        """Carry out `work` and wait for it. Raises WorkerDied, or what the work raises."""
        # `pop` and `append` are atomic, so threads need no lock.
        try:
            process = self._idle.pop()
        except IndexError:
            process = _Process()
        try:
            result = process.run(work)
        except BrokenProcessPool:
            process.end()
            raise WorkerDied from None
        except BaseException:
            self._idle.append(process)
            raise
        self._idle.append(process)
        return result

    def end_idle(self) -> None:
        """End the processes that carry nothing out."""
        while self._idle:
            self._idle.pop().end()


class _Process:
    """One process, which ends with this one."""

    def __init__(self) -> None:
        # A nanny of Dask's makes its workers daemons, which may not have children; these end by themselves.
        if multiprocessing.current_process().daemon:
            multiprocessing.current_process().daemon = False
        self._open = ExitStack()
        self._executor, self._watchdog = self._open.enter_context(pool(1))

    def run(self, work: Callable[[], Result]) -> Result:
        future: Future[Result] = self._executor.submit(work)
        finished([future], self._watchdog)
        return future.result()

    def end(self) -> None:
        self._open.close()


_here = Processes()
"""Those of a worker of Dask's, which knows functions and no objects."""


def run_on_worker(work: Callable[[], Result], code: str) -> Result:
    """Carry out `work` on a worker of Dask's. Raises NoEngine where its code is not `code`."""
    check_code(code)
    return _here.run(work)


def check_code(code: str) -> None:
    """Raises NoEngine on a computer where runs would not give the same, since code or libraries differ."""
    if code_and_data() != code:
        raise NoEngine(
            f"the Dask worker on {socket.gethostname()} has another version of sil or of its libraries, and "
            "would not give the same; install there what is installed here, and start the worker anew"
        )


def end_idle_on_worker() -> None:
    """End the processes of a worker of Dask's that carry nothing out; others start them again."""
    _here.end_idle()
