"""The free ones of a machine's nodes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduler.compiled import Ints, Ints2
from scheduler.free_nodes.kernels.free_set import END, are_free, next_lowest, turn
from scheduler.node_set import Interval, NodeSet

FEWEST_BOUNDS = 64


class FreeSet:
    """The free nodes. Taking or giving back an interval costs O(log b) for b bounds, and shifts those after
    it."""

    __slots__ = ("_bounds", "_handed_out", "_n_bounds", "_n_nodes", "n")

    def __init__(self, n_nodes: int) -> None:
        self._bounds: Ints = np.full(FEWEST_BOUNDS, END)
        if n_nodes:
            self._bounds[:2] = 0, n_nodes
        self._n_bounds = 3 if n_nodes else 1
        self._handed_out: Ints2 = np.empty((FEWEST_BOUNDS, 2), dtype=np.int64)
        self._n_nodes = n_nodes
        self.n = n_nodes

    @property
    def intervals(self) -> list[Interval]:
        bounds = self._bounds[: self._n_bounds - 1].tolist()
        return [(first, end - 1) for first, end in zip(bounds[::2], bounds[1::2], strict=True)]

    def has(self, nodes: NodeSet) -> bool:
        """Whether all of them are free."""
        if not nodes.within(self._n_nodes):
            return False
        bounds, n = self._bounds, self._n_bounds
        return all(are_free(bounds, n, first, last) for first, last in nodes.intervals)

    def lowest(self, n: int) -> NodeSet:
        """The n free nodes with the lowest numbers; there must be n."""
        return self.in_order().next(n)

    def in_order(self) -> InOrder:
        return InOrder(self._bounds, self._handed_out)

    def take(self, nodes: NodeSet) -> None:
        """Occupy free nodes."""
        self._turn(nodes.intervals)
        self.n -= nodes.n

    def give_back(self, nodes: NodeSet) -> None:
        """Free occupied nodes."""
        self._turn(nodes.intervals)
        self.n += nodes.n

    def _turn(self, intervals: Iterable[Interval]) -> None:
        bounds, n = self._bounds, self._n_bounds
        for first, last in intervals:
            if n + 2 > len(bounds):
                bounds = self._bounds = np.append(bounds, np.full(len(bounds), END))
                self._handed_out = np.empty((len(bounds), 2), dtype=np.int64)
            n = turn(bounds, n, first, last)
        self._n_bounds = n


class InOrder:
    """Hands out free nodes, lowest first, while the free set does not change.

    All calls together cost one walk over the set.
    """

    __slots__ = ("_bounds", "_cursor", "_intervals")

    def __init__(self, bounds: Ints, intervals: Ints2) -> None:
        """`bounds` as those of a `FreeSet`; `intervals` has room for half as many."""
        self._bounds = bounds
        self._intervals = intervals
        self._cursor: Ints = np.array([0, bounds[0]])

    def next(self, n: int) -> NodeSet:
        """The next n free nodes; there must be n."""
        found = next_lowest(self._bounds, self._cursor, n, self._intervals)
        return NodeSet(tuple([(first, last) for first, last in self._intervals[:found].tolist()]), n)
