"""The free ones of identical nodes."""

from __future__ import annotations

import numpy as np

from scheduler.compiled import Ints, Ints2
from scheduler.free_nodes.kernels.one_at_a_time import are_free, lowest
from scheduler.free_nodes.kernels.queues import N_BOUNDS, N_FREE
from scheduler.free_nodes.queues.growing import GrowingQueue
from scheduler.node_set import Interval, NodeSet


class FreeSet:
    """The free nodes, `n` of them."""

    __slots__ = ("_handed_out", "_n_nodes", "_queue")

    def __init__(self, queue: GrowingQueue, n_nodes: int) -> None:
        self._queue = queue
        self._n_nodes = n_nodes
        self._handed_out: Ints2 = np.empty((0, 2), dtype=np.int64)

    @property
    def n(self) -> int:
        return self._queue.counts[N_FREE]

    @property
    def intervals(self) -> list[Interval]:
        bounds = self._queue.arrays.bounds[: self._queue.counts[N_BOUNDS] - 1].tolist()
        return [(first, end - 1) for first, end in zip(bounds[::2], bounds[1::2], strict=True)]

    def has(self, nodes: NodeSet) -> bool:
        """Whether all of them are free."""
        if not nodes.within(self._n_nodes):
            return False
        bounds, n = self._queue.arrays.bounds, self._queue.counts[N_BOUNDS]
        return all(are_free(bounds, n, first, last) for first, last in nodes.intervals)

    def lowest(self, n: int) -> NodeSet:
        """The n free nodes with the lowest numbers. Raises IndexError if fewer are free."""
        return self.in_order().next(n)

    def in_order(self) -> InOrder:
        bounds = self._queue.arrays.bounds
        if 2 * len(self._handed_out) < len(bounds):
            self._handed_out = np.empty((len(bounds) // 2, 2), dtype=np.int64)
        return InOrder(bounds, self._handed_out, self.n)


class InOrder:
    """Hands out free nodes, lowest first, while the free set does not change.

    All calls together cost one walk over the set.
    """

    __slots__ = ("_bounds", "_cursor", "_intervals", "_left")

    def __init__(self, bounds: Ints, intervals: Ints2, n_free: int) -> None:
        """`intervals` has room for those between the bounds."""
        self._bounds = bounds
        self._left = n_free
        self._intervals = intervals
        self._cursor: Ints = np.array([0, bounds[0]])

    def next(self, n: int) -> NodeSet:
        """The next n free nodes. Raises IndexError if fewer are left."""
        if not 0 <= n <= self._left:
            raise IndexError(f"{n} free nodes are asked for, and {self._left} are left")
        self._left -= n
        found = lowest(self._bounds, self._cursor, n, self._intervals, 0)
        return NodeSet(tuple([(first, last) for first, last in self._intervals[:found].tolist()]), n)
