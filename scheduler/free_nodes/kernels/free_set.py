"""The free nodes as bounds in ascending order: alternately the first free and the first occupied node of each
interval, and END after the last.

Taking or giving back nodes toggles the bounds of their intervals: it removes those that are there, and
inserts those that are not.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduler.compiled import Ints, Ints2, called_from_python, compiled, direct, inlined, part
from scheduler.node_set import Interval, NodeSet

END = 2**62
"""After all bounds."""

FIRST, LAST = 0, 1
"""Columns of a table of intervals: their first and last node."""

AT, NODE = 0, 1
"""Places in a cursor: of a bound of a free interval, and the first node there that was not handed out."""

FEWEST_BOUNDS = 64


@inlined
def row_of(bounds: Ints, n: int, node: int) -> int:
    """The first of the n bounds that is not below a node."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if bounds[middle] < node:
            low = middle + 1
        else:
            high = middle
    return low


@part
def toggle(bounds: Ints, n: int, first: int, last: int) -> int:
    """Take free nodes, or give back occupied ones. Returns the number of bounds; there must be room for two
    more."""
    k, end = row_of(bounds, n, first), last + 1
    if bounds[k] == first:
        if bounds[k + 1] == end:
            for x in range(k, n - 2):
                bounds[x] = bounds[x + 2]
            return n - 2
        bounds[k] = end
    elif bounds[k] == end:
        bounds[k] = first
    else:
        for x in range(n - 1, k - 1, -1):
            bounds[x + 2] = bounds[x]
        bounds[k], bounds[k + 1] = first, end
        return n + 2
    return n


turn = called_from_python(toggle)


@direct
@compiled
def are_free(bounds: Ints, n: int, first: int, last: int) -> bool:
    """Whether all nodes of an interval are free."""
    k = row_of(bounds, n, first + 1)
    return k % 2 == 1 and bounds[k] > last


@part
def lowest(bounds: Ints, cursor: Ints, n_nodes: int, intervals: Ints2, n: int) -> int:
    """Add the next free nodes from a cursor on to n intervals, and move the cursor behind them; there must be
    so many. Returns the number of intervals."""
    k, first, left = cursor[AT], cursor[NODE], n_nodes
    while left > 0:
        end = bounds[k + 1]
        if first == end:
            k += 2
            first, end = bounds[k], bounds[k + 1]
        if end > first + left:
            end = first + left
        intervals[n, FIRST], intervals[n, LAST] = first, end - 1
        n += 1
        left -= end - first
        first = end
    cursor[AT], cursor[NODE] = k, first
    return n


add_lowest = called_from_python(lowest)


@part
def take_before(bounds: Ints, n: int, cursor: Ints) -> int:
    """Take all free nodes before a cursor. Returns the number of bounds."""
    k = cursor[AT]
    bounds[k] = cursor[NODE]
    if bounds[k] == bounds[k + 1]:
        k += 2
    for x in range(k, n):
        bounds[x - k] = bounds[x]
    return int(n - k)


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
        """The n free nodes with the lowest numbers. Raises IndexError if fewer are free."""
        return self.in_order().next(n)

    def in_order(self) -> InOrder:
        return InOrder(self._bounds, self._handed_out, self.n)

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

    __slots__ = ("_bounds", "_cursor", "_intervals", "_left")

    def __init__(self, bounds: Ints, intervals: Ints2, n_free: int) -> None:
        """`bounds` as those of a `FreeSet`; `intervals` has room for half as many."""
        self._bounds = bounds
        self._left = n_free
        self._intervals = intervals
        self._cursor: Ints = np.array([0, bounds[0]])

    def next(self, n: int) -> NodeSet:
        """The next n free nodes. Raises IndexError if fewer are left."""
        if not 0 <= n <= self._left:
            raise IndexError(f"{n} free nodes are asked for, and {self._left} are left")
        self._left -= n
        found = add_lowest(self._bounds, self._cursor, n, self._intervals, 0)
        return NodeSet(tuple([(first, last) for first, last in self._intervals[:found].tolist()]), n)
