"""The free nodes as bounds in ascending order: alternately the first free and the first occupied node of each
interval, and AFTER_ALL after the last.

Taking or giving back nodes toggles the bounds of their intervals: it removes those that are there, and
inserts those that are not.
"""

from __future__ import annotations

from scheduler.core.arrays import FEWEST, Ints, integers, larger
from scheduler.core.codes import AFTER_ALL


class FreeIntervals:
    """The bounds, and a cursor: the place of a bound, and the first node from there on that was not handed
    out."""

    def __init__(self, n_nodes: int) -> None:
        self.bounds = integers(FEWEST) + AFTER_ALL
        self.bounds[0], self.bounds[1], self.n = 0, n_nodes, 3
        self.at, self.node = 0, 0

    def row_of(self, node: int) -> int:
        """The first bound that is not below a node."""
        low, high = 0, self.n
        while low < high:
            middle = (low + high) >> 1
            if self.bounds[middle] < node:
                low = middle + 1
            else:
                high = middle
        return low

    def toggle(self, first: int, last: int) -> None:
        """Take free nodes, or give back occupied ones."""
        n, k, end = self.n, self.row_of(first), last + 1
        if self.bounds[k] == first:
            if self.bounds[k + 1] == end:
                for x in range(k, n - 2):
                    self.bounds[x] = self.bounds[x + 2]
                self.n = n - 2
            else:
                self.bounds[k] = end
        elif self.bounds[k] == end:
            self.bounds[k] = first
        else:
            if n + 3 > self.bounds.shape[0]:
                self.bounds = larger(self.bounds, 2 * self.bounds.shape[0])
            for x in range(n - 1, k - 1, -1):
                self.bounds[x + 2] = self.bounds[x]
            self.bounds[k], self.bounds[k + 1] = first, end
            self.n = n + 2

    def is_free(self, first: int, last: int) -> bool:
        """Whether all nodes of an interval are free."""
        k = self.row_of(first + 1)
        return k % 2 == 1 and self.bounds[k] > last

    def begin_handing_out(self) -> None:
        self.at, self.node = 0, self.bounds[0]

    def lowest(self, n_nodes: int, intervals: Ints, n: int) -> int:
        """Add the next free nodes from the cursor on to n intervals, and move the cursor behind them; that
        many must be left. Returns the number of intervals."""
        k, first, left = self.at, self.node, n_nodes
        while left > 0:
            end = self.bounds[k + 1]
            if first == end:
                k += 2
                first, end = self.bounds[k], self.bounds[k + 1]
            if end > first + left:
                end = first + left
            intervals[n, 0], intervals[n, 1] = first, end - 1
            n += 1
            left -= end - first
            first = end
        self.at, self.node = k, first
        return n

    def take_before(self) -> None:
        """Take all free nodes before the cursor."""
        k = self.at
        self.bounds[k] = self.node
        if self.bounds[k] == self.bounds[k + 1]:
            k += 2
        for x in range(k, self.n):
            self.bounds[x - k] = self.bounds[x]
        self.n -= k
