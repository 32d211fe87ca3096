"""Expected releases of identical nodes."""

from __future__ import annotations

from scheduler.compiled import Floats
from scheduler.free_nodes.kernels.queues import N_RELEASES
from scheduler.free_nodes.kernels.releases import END_S, RELEASED
from scheduler.free_nodes.queues.growing import GrowingQueue


class Releases:
    """When running jobs are expected to release their nodes: in order of time, then run id."""

    __slots__ = ("_queue",)

    def __init__(self, queue: GrowingQueue) -> None:
        self._queue = queue

    @property
    def ends_s(self) -> Floats:
        """(n,) in ascending order."""
        return self._column(END_S)

    @property
    def sizes(self) -> Floats:
        """(n,) number of nodes released at each of these times."""
        return self._column(RELEASED)

    def _column(self, column: int) -> Floats:
        return self._queue.arrays.releases[: self._queue.counts[N_RELEASES], column].copy()
