"""The expected releases of nodes."""

from __future__ import annotations

import numpy as np

from scheduler.core.arrays import MIN_SIZE, Floats, Ints, floats, integers, larger
from scheduler.core.codes import AFTER_ALL


class Releases:
    """When runs are expected to end, in order of time, then run."""

    def __init__(self) -> None:
        self.n = 0
        self.end_s = floats(MIN_SIZE)
        self.released = integers(MIN_SIZE)
        self.run = integers(MIN_SIZE)
        self.slot = integers(MIN_SIZE)

    @property
    def ends_s(self) -> Floats:
        """(n,) in ascending order."""
        return np.array(self.end_s[: self.n])

    @property
    def sizes(self) -> Ints:
        """(n,) number of identical nodes released at each of these times."""
        return np.array(self.released[: self.n])

    @property
    def runs(self) -> Ints:
        """(n,) the run that ends at each of these times."""
        return np.array(self.run[: self.n])

    def first_s(self) -> float | None:
        """When the next run is expected to end."""
        return self.end_s[0] if self.n > 0 else None

    def row_of(self, end_s: float, run: int) -> int:
        """The first row that does not come before (end_s, run)."""
        low, high = 0, self.n
        while low < high:
            middle = (low + high) >> 1
            if self.end_s[middle] < end_s or (self.end_s[middle] == end_s and self.run[middle] < run):
                low = middle + 1
            else:
                high = middle
        return low

    def insert(self, end_s: float, released: int, run: int, slot: int) -> None:
        """Note when a run releases nodes: their number or, on consumable nodes, the first row of what it
        holds."""
        n = self.n
        if n == self.end_s.shape[0]:
            self.end_s, self.released = larger(self.end_s, 2 * n), larger(self.released, 2 * n)
            self.run, self.slot = larger(self.run, 2 * n), larger(self.slot, 2 * n)
        x = self.row_of(end_s, run)
        for y in range(n, x, -1):
            self.end_s[y], self.released[y] = self.end_s[y - 1], self.released[y - 1]
            self.run[y], self.slot[y] = self.run[y - 1], self.slot[y - 1]
        self.end_s[x], self.released[x], self.run[x], self.slot[x] = end_s, released, run, slot
        self.n = n + 1

    def remove(self, end_s: float, run: int) -> None:
        n = self.n - 1
        for y in range(self.row_of(end_s, run), n):
            self.end_s[y], self.released[y] = self.end_s[y + 1], self.released[y + 1]
            self.run[y], self.slot[y] = self.run[y + 1], self.slot[y + 1]
        self.n = n

    def expect(self, end_s: float, released: int) -> None:
        """A job that starts in this pass will release nodes, until `forget`."""
        self.insert(end_s, released, AFTER_ALL, 0)

    def forget(self, end_s: float) -> None:
        self.remove(end_s, AFTER_ALL)
