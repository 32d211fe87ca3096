"""Where runs take place: in processes on this computer, or on the workers of a Dask scheduler."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sil.workers.port import WAKE_EVERY_S, Workers
from sil.workers.port import NoEngine as NoEngine
from sil.workers.process_executor import Processes
from sil.workers.processes import end_workers, worker_context

Result = TypeVar("Result")


@dataclass(frozen=True)
class Engine:
    """`workers` processes on this computer, or the workers of a Dask scheduler: `dask` is its address, like
    tcp://scheduler:8786, or the path of the file that it writes with --scheduler-file."""

    workers: int = field(default_factory=lambda: os.cpu_count() or 1)
    dask: str | None = None

    def opened(self) -> AbstractContextManager[Workers]:
        """The workers, until the block ends. If it ends by an exception, such as Ctrl-C, what is under way is
        not waited for. Raises NoEngine."""
        if self.dask is None:
            return _on_this_computer(self.workers)
        try:
            from sil.workers.dask_cluster import on_cluster
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("dask", "distributed"):
                raise
            raise NoEngine(
                "--dask needs the package distributed; install this one with [distributed]"
            ) from None
        return on_cluster(self.dask)


class _ProcessesHere:
    """A thread for each process, which waits for it: so it is known whose work a process died of."""

    def __init__(self, workers: int) -> None:
        worker_context()  # sets up what all threads share, before there are any
        self.at_once = 2 * workers
        self._processes = Processes()
        self._threads = ThreadPoolExecutor(workers)
        self._submitted: set[Future[Any]] = set()

    def submit(self, work: Callable[[], Result]) -> Future[Result]:
        future = self._threads.submit(self._processes.run, work)
        self._submitted.add(future)
        future.add_done_callback(self._submitted.discard)
        return future

    def outcome(self, future: Future[Result]) -> Result:
        return future.result()

    def give_up(self) -> None:
        """End what is under way."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        # Again and again: a thread may be about to start its process.
        while wait(set(self._submitted), timeout=WAKE_EVERY_S).not_done:
            end_workers()

    def close(self) -> None:
        self._threads.shutdown()
        self._processes.end_idle()


@contextmanager
def _on_this_computer(workers: int) -> Iterator[Workers]:
    here = _ProcessesHere(workers)
    try:
        yield here
    except BaseException:
        here.give_up()
        raise
    finally:
        here.close()
