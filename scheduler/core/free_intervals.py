"""The free nodes as bounds in ascending order: alternately the first free and the first occupied node of each
interval, and AFTER_ALL after the last.

Taking or giving back nodes toggles the bounds of their intervals: it removes those that are there, and
inserts those that are not.
"""

from __future__ import annotations

import numpy as np

from scheduler.core.arrays import MIN_SIZE, Ints2, integers, larger
from scheduler.core.codes import AFTER_ALL
from scheduler.node_set import Interval, NodeSet


class FreeIntervals:
    """A set of free nodes: `n` of `n_nodes`."""

    def __init__(self, n_nodes: int) -> None:
        self.n, self.n_nodes = n_nodes, n_nodes
        self.bounds = integers(MIN_SIZE)
        self.bounds[0], self.bounds[1], self.bounds[2], self.n_bounds = 0, n_nodes, AFTER_ALL, 3

    @property
    def intervals(self) -> list[Interval]:
        bounds = [self.bounds[x] for x in range(self.n_bounds - 1)]
        return [(first, end - 1) for first, end in zip(bounds[::2], bounds[1::2], strict=True) if first < end]

    def has(self, nodes: NodeSet) -> bool:
        """Whether all of `nodes` are free."""
        return nodes.within(self.n_nodes) and all(
            self.is_free(first, last) for first, last in nodes.intervals
        )

    def lowest(self, n: int) -> NodeSet:
        """The n free nodes with the lowest numbers. Raises IndexError if fewer are free."""
        return self.in_order().next(n)

    def in_order(self) -> InOrder:
        return InOrder(self)

    def row_of(self, node: int) -> int:
        """The row of the first bound that is not below `node`."""
        low, high = 0, self.n_bounds
        while low < high:
            middle = (low + high) >> 1
            if self.bounds[middle] < node:
                low = middle + 1
            else:
                high = middle
        return low

    def toggle(self, first: int, last: int) -> None:
        """Take free nodes, or give back occupied ones."""
        n, k, end = self.n_bounds, self.row_of(first), last + 1
        is_taken = (self.bounds[k] == first) == (k % 2 == 0)
        self.n += first - end if is_taken else end - first
        if self.bounds[k] == first:
            if self.bounds[k + 1] == end:
                for x in range(k, n - 2):
                    self.bounds[x] = self.bounds[x + 2]
                self.n_bounds = n - 2
            else:
                self.bounds[k] = end
        elif self.bounds[k] == end:
            self.bounds[k] = first
        else:
            if n + 2 > self.bounds.shape[0]:
                self.bounds = larger(self.bounds, 2 * n)
            for x in range(n - 1, k - 1, -1):
                self.bounds[x + 2] = self.bounds[x]
            self.bounds[k], self.bounds[k + 1] = first, end
            self.n_bounds = n + 2

    def is_free(self, first: int, last: int) -> bool:
        """Whether all nodes of an interval are free."""
        k = self.row_of(first + 1)
        return k % 2 == 1 and self.bounds[k] > last

    def take_before(self, cursor: InOrder) -> None:
        """Take the nodes that were handed out in order."""
        k = cursor.at
        self.n = cursor.left
        self.bounds[k] = cursor.node
        if self.bounds[k] == self.bounds[k + 1]:
            k += 2
        for x in range(k, self.n_bounds):
            self.bounds[x - k] = self.bounds[x]
        self.n_bounds -= k


class InOrder:
    """Hands out free nodes, lowest first, while the free set does not change: `left` are left, from `node` on
    in the interval that begins with the bound `at`.

    All calls together cost one walk over the set.
    """

    def __init__(self, free: FreeIntervals) -> None:
        self.free = free
        self.begin()

    def begin(self) -> None:
        self.at, self.node, self.left = 0, self.free.bounds[0], self.free.n

    def hand_out(self, n_nodes: int, intervals: Ints2, row: int) -> int:
        """Write the next free nodes from a row of intervals on; that many must be left. Returns the row after
        them."""
        k, first, left = self.at, self.node, n_nodes
        self.left -= n_nodes
        while left > 0:
            end = self.free.bounds[k + 1]
            if first == end:
                k += 2
                first, end = self.free.bounds[k], self.free.bounds[k + 1]
            if end > first + left:
                end = first + left
            intervals[row, 0], intervals[row, 1] = first, end - 1
            row += 1
            left -= end - first
            first = end
        self.at, self.node = k, first
        return row

    def next(self, n: int) -> NodeSet:
        """The next n free nodes. Raises IndexError if fewer are left."""
        if not 0 <= n <= self.left:
            raise IndexError(f"{n} free nodes are asked for, and {self.left} are left")
        found = np.empty((min(n, self.free.n_bounds // 2), 2), np.int64)
        n_found = self.hand_out(n, found, 0)
        return NodeSet(tuple([(first, last) for first, last in found[:n_found].tolist()]), n)
