"""A queue for identical nodes in the hands of a manager in Python."""

from __future__ import annotations

from scheduler.compiled import handle
from scheduler.free_nodes.kernels.backfilling import FCFS, NO_BACKFILLING
from scheduler.free_nodes.kernels.estimates import USER
from scheduler.free_nodes.kernels.queues import N_DOWN, N_INTERVALS, RigidQueue
from scheduler.free_nodes.queues.arrays import QueuePolicy
from scheduler.free_nodes.queues.identical import new_rigid_queue, with_intervals

UNUSED = QueuePolicy(FCFS, NO_BACKFILLING, USER, always_called=False)
"""The scheduler has the policy, and an estimator the estimates."""


class GrowingQueue:
    """The arrays of a queue, which are replaced by larger ones as needed, and their handle.

    `counts` are those of the arrays, and never replaced.
    """

    __slots__ = ("arrays", "counts", "handle")

    def __init__(self, n_nodes: int) -> None:
        self.replace(new_rigid_queue(n_nodes, UNUSED, n_users=0))
        self.counts = memoryview(self.arrays.counts.data)  # read faster than the array

    def replace(self, arrays: RigidQueue) -> None:
        self.arrays, self.handle = arrays, handle(arrays)

    def make_room(self, n: int) -> None:
        """For n more intervals of nodes."""
        counts = self.counts
        if counts[N_INTERVALS] + counts[N_DOWN] + n > len(self.arrays.intervals):
            self.replace(with_intervals(self.arrays, n))
