"""Facts as arrays, for readers of a few columns of many."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from scheduler.core.arrays import Ints, Ints2
from sil.trace.facts import CODES, Fact, as_frame
from sil.trace.stream import COMPATIBLE

NONE = -1
"""Stands for a number that a fact does not have."""

Places = NDArray[np.int64]


class FactColumns:
    """Some columns of facts, in the order of a trace. Arrays are read-only."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @classmethod
    def of(cls, facts: pl.DataFrame, columns: Sequence[str]) -> Self:
        return cls(facts.select(columns).to_arrow(compat_level=COMPATIBLE))

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @cached_property
    def time_s(self) -> NDArray[np.float64]:
        return np.asarray(self._column("time_s"))

    @cached_property
    def event(self) -> NDArray[np.integer[Any]]:
        """The kind of each fact, as one of CODES."""
        return np.asarray(self._column("event").indices)

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
        lists = self._column(name)
        offsets, records = np.asarray(lists.offsets), lists.values
        n_of = np.where(np.asarray(lists.is_valid()), np.diff(offsets), 0)[places]
        ends = np.concatenate([[0], np.cumsum(n_of)])
        rows: Any = slice(offsets[0], offsets[-1])  # if other facts hold nothing, which is most frequent
        if ends[-1] != offsets[-1] - offsets[0]:
            rows = np.repeat(offsets[places] - ends[:-1], n_of) + np.arange(ends[-1])
        numbers = np.empty((ends[-1], records.type.num_fields), np.int64)
        for k in range(records.type.num_fields):
            numbers[:, k] = _filled(records.field(k))[rows]
        return ends, numbers

    def frame(self, columns: Sequence[str], places: Places) -> pl.DataFrame:
        """Some columns in some places."""
        return as_frame([self._table.select(columns).take(pa.array(places))], columns)

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
        return FactColumns(pa.concat_tables([self._table, more._table]))

    def without(self, fact: Fact) -> FactColumns:
        return FactColumns(self._table.take(pa.array(np.flatnonzero(self.event != CODES[fact]))))

    def _numbers(self, name: str) -> NDArray[Any]:
        return _filled(self._column(name))

    def _column(self, name: str) -> Any:
        return self._table[name].combine_chunks()


def _filled(column: Any) -> NDArray[Any]:
    return np.asarray(column.fill_null(NONE) if column.null_count else column)
