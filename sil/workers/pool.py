"""Worker processes under watch: one that is lost, or dies, is noticed, and none is left behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

from sil.workers.processes import end_workers, lead_own_group, worker_context
from sil.workers.watchdog import LOOK_EVERY_S, Watchdog

Result = TypeVar("Result")


@contextmanager
def pool(workers: int) -> Iterator[tuple[ProcessPoolExecutor, Watchdog]]:
    """Worker processes, and the watchdog over them; on Ctrl-C they are not waited for.

    A finished task is a whole file, so nothing is lost.
    """
    context = worker_context()
    watchdog = Watchdog(context, workers)
    with ProcessPoolExecutor(workers, context, _begin_worker, (watchdog,)) as made:
        try:
            yield made, watchdog
        except KeyboardInterrupt:
            end_workers()
            raise
    watchdog.end_all()


def finished(under_way: Iterable[Future[Result]], watchdog: Watchdog) -> set[Future[Result]]:
    """The futures that are done, at least one."""
    while True:
        done = wait(under_way, timeout=LOOK_EVERY_S, return_when=FIRST_COMPLETED).done
        if done:
            return done
        watchdog.end_the_lost()


def _begin_worker(watchdog: Watchdog) -> None:
    lead_own_group()
    watchdog.watch_this_process()
