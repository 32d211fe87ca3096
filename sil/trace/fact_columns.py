"""Facts as arrays, for readers of a few columns of many."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scheduler.core.arrays import Ints, Ints2
from sil.trace.facts import CODES, Fact
from sil.trace.held import records_in

NONE = -1
"""Stands for a number that a fact does not have."""

Places = NDArray[np.int64]


class FactColumns:
    """Some columns of facts, in the order of a trace. Arrays are read-only."""

    def __init__(self, table: pl.DataFrame) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    @cached_property
    def time_s(self) -> NDArray[np.float64]:
        return self._table["time_s"].to_numpy()

    @cached_property
    def event(self) -> NDArray[np.integer[Any]]:
        """The kind of each fact, as one of CODES."""
        return self._table["event"].to_physical().to_numpy()

    @cached_property
    def job(self) -> NDArray[np.int64]:
        return self._numbers("job")

    @cached_property
    def run(self) -> NDArray[np.int64]:
        return self._numbers("run")

    @cached_property
    def resource(self) -> NDArray[np.int32]:
        return self._numbers("resource")

    @cached_property
    def tasks(self) -> NDArray[np.int32]:
        return self._numbers("tasks")

    def places(self, fact: Fact) -> Places:
        return np.flatnonzero(self.event == CODES[fact])

    def held(self, name: str, places: Places) -> tuple[Ints, Ints2]:
        """What facts in some places hold (a column of HELD): the k-th has the rows from `ends[k]` on, before
        `ends[k + 1]`. Numbers that are null are NONE."""
        lists = self._table[name]
        n_of_all = lists.list.len().fill_null(0).to_numpy()
        ends = np.concatenate([[0], np.cumsum(n_of_all[places], dtype=np.int64)])
        numbers = records_in(lists).fill_null(NONE).cast(pl.Int64).to_numpy(order="c")
        if ends[-1] != len(numbers):  # other facts hold something, which is rare
            numbers = numbers[np.repeat(np.isin(np.arange(len(self)), places), n_of_all)]
        return ends, numbers

    def frame(self, columns: Sequence[str], places: Places) -> pl.DataFrame:
        """Some columns in some places."""
        return self._table.select(columns)[places]

    def slice(self, begin: int, end: int) -> FactColumns:
        """The facts from `begin` on, before `end`: views of the same arrays."""
        return FactColumns(self._table.slice(begin, end - begin))

    def with_events(self, event: NDArray[np.integer[Any]]) -> FactColumns:
        """These facts with other codes of events."""
        changed = FactColumns(self._table)
        changed.event = event
        return changed

    def part(self, begin: int, end: int) -> FactColumns:
        """As `slice`, with the same events; themselves if that is all."""
        if begin == 0 and end == len(self):
            return self
        return self.slice(begin, end).with_events(self.event[begin:end])

    def followed_by(self, more: FactColumns) -> FactColumns:
        """These facts and more, which have the same columns."""
        return FactColumns(pl.concat([self._table, more._table]))

    def without(self, fact: Fact) -> FactColumns:
        return FactColumns(self._table[np.flatnonzero(self.event != CODES[fact])])

    def _numbers(self, name: str) -> NDArray[Any]:
        return self._table[name].fill_null(NONE).to_numpy()
