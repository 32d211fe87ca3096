"""Ends worker processes that are lost in a decision from which no signal brings them back."""

from __future__ import annotations

import os
import time
from multiprocessing.context import BaseContext

from sil.workers.processes import end_group
from sil.world.guard.time_limit import announce_deadlines_to

LOOK_EVERY_S = 0.5


class Watchdog:
    """Knows of each worker until when its current decision may take; that costs one store per decision."""

    def __init__(self, context: BaseContext, workers: int) -> None:
        self._deadlines_s = context.RawArray("d", workers)
        self._pids = context.RawArray("i", workers)
        self._count = context.Value("i", 0)

    def watch_this_process(self) -> None:
        """Called once in each worker."""
        with self._count.get_lock():
            place = self._count.value
            self._count.value += 1
        self._pids[place] = os.getpid()

        def announce(deadline_s: float) -> None:
            self._deadlines_s[place] = deadline_s

        announce_deadlines_to(announce)

    def end_the_lost(self) -> None:
        """Kill every worker whose deadline has passed."""
        now_s = time.monotonic()
        for place, (pid, deadline_s) in enumerate(zip(self._pids, self._deadlines_s, strict=True)):
            if 0.0 < deadline_s < now_s:
                self._deadlines_s[place] = 0.0  # once is enough; the number may be another's soon
                end_group(pid)

    def end_all(self) -> None:
        """Whatever is left of the workers, and of what they started."""
        for pid in filter(None, self._pids):
            end_group(pid)
