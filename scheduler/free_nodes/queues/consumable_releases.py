"""Expected releases of nodes of which jobs use parts."""

from __future__ import annotations

import numpy as np

from scheduler.compiled import called_from_python
from scheduler.free_nodes.kernels.releases import END_S, N_COLUMNS, RUN, ReleaseTable, insert, remove
from scheduler.model import RunId

FEWEST_ROWS = 64

_insert = called_from_python(insert)
_remove = called_from_python(remove)


class Releases:
    """In order of time, then run id. Adding or removing one costs a binary search and a shift of the rest."""

    __slots__ = ("n", "table")

    def __init__(self) -> None:
        self.table: ReleaseTable = np.zeros((FEWEST_ROWS, N_COLUMNS))
        """For the kernels: the first `n` rows. RELEASED is a run's first row in `ConsumableNodes.held`."""
        self.n = 0

    def first_s(self) -> float | None:
        """The time of the first release."""
        return self.table.item(END_S) if self.n else None

    @property
    def first_run(self) -> RunId:
        """The run with the first release; there must be one."""
        return RunId(int(self.table[0, RUN]))

    def add(self, end_s: float, first_row: int, run: RunId) -> None:
        if self.n == len(self.table):
            self.table = np.concatenate([self.table, np.zeros_like(self.table)])
        _insert(self.table, self.n, end_s, first_row, run, 0)
        self.n += 1

    def drop(self, end_s: float, run: RunId) -> None:
        """Remove the release of a run, given the time at which it was added."""
        _remove(self.table, self.n, end_s, run)
        self.n -= 1
