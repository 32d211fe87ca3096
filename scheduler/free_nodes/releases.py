"""Expected releases: how many nodes running jobs release, and when."""

from __future__ import annotations

import numpy as np

from scheduler.compiled import Floats
from scheduler.free_nodes.kernels.releases import END_S, RELEASED, RUN, add_release, drop_release
from scheduler.free_nodes.kernels.releases import Releases as Table
from scheduler.model import RunId

FEWEST_ROWS = 64


class Releases:
    """In order of time, then run id. Adding or removing one costs a binary search and a shift of the rest."""

    __slots__ = ("capacity", "n", "table")

    def __init__(self) -> None:
        self.table: Table = np.zeros((FEWEST_ROWS, 3))
        """For the kernels: the first `n` rows."""
        self.n = 0
        self.capacity = FEWEST_ROWS

    @property
    def ends_s(self) -> Floats:
        """(n,) in ascending order."""
        return self.table[: self.n, END_S].copy()

    @property
    def sizes(self) -> Floats:
        """(n,) number of nodes released at each of these times."""
        return self.table[: self.n, RELEASED].copy()

    def first_s(self) -> float | None:
        """The time of the first release."""
        return self.table.item(END_S) if self.n else None

    @property
    def first_run(self) -> RunId:
        """The run with the first release; there must be one."""
        return RunId(int(self.table[0, RUN]))

    def add(self, end_s: float, n_nodes: int, run: RunId) -> None:
        if self.n == self.capacity:
            self.make_room(1)
        add_release(self.table, self.n, end_s, n_nodes, run)
        self.n += 1

    def drop(self, end_s: float, run: RunId) -> None:
        """Remove the release of a run, given the time at which it was added."""
        drop_release(self.table, self.n, end_s, run)
        self.n -= 1

    def make_room(self, more: int) -> None:
        """Make room for `more` releases."""
        self.capacity = max(self.capacity, 2 * (self.n + more))
        larger = np.zeros((self.capacity, 3))
        larger[: self.n] = self.table[: self.n]
        self.table = larger
