"""The rows of statistics: for each job class in each place, the moments and quantiles of its runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import InstrumentedAttribute, Session

from site_db.bulk import insert_rows, update_rows
from site_db.history.completed_run import Key
from site_db.history.quantile_sketch import QuantileSketch
from site_db.history.statistics import RunStatistics
from site_db.schema import ExecutionSnapshotRow, ExecutionStatisticsRow, JobClassRow

MOMENTS = (
    "count",
    "mean_s",
    "squares_s2",
    "least_s",
    "sized_count",
    "sized_mean_s",
    "mean_size",
    "squares_size2",
    "products",
)
STORED = (*MOMENTS, "sketch")
"""The columns of a row of statistics, and of its copies."""

_moments = attrgetter(*MOMENTS)


@dataclass(slots=True)
class StoredStatistics:
    """Moments and quantiles of the runs of one key; `id` is its row, None before there is one."""

    runs: RunStatistics = field(default_factory=RunStatistics)
    sketch: QuantileSketch = field(default_factory=QuantileSketch)
    id: int | None = None

    def add(self, run_times_s: Sequence[float], sizes: Sequence[float | None]) -> None:
        """Count some more runs, each with its size or None."""
        self.runs = self.runs.merged(RunStatistics.of(run_times_s, sizes))
        self.sketch.add(run_times_s)

    def merge(self, other: StoredStatistics) -> None:
        """Count the runs of another one, too."""
        self.runs = self.runs.merged(other.runs)
        self.sketch.merge(other.sketch)

    def values(self) -> tuple[Any, ...]:
        """Its values for the columns STORED."""
        return (*_moments(self.runs), self.sketch.to_bytes())

    def columns(self) -> dict[str, Any]:
        """The same by name."""
        return dict(zip(STORED, self.values(), strict=True))


def read_moments(session: Session, site_id: int) -> dict[Key, RunStatistics]:
    """The statistics of a site without quantiles."""
    row, n = ExecutionStatisticsRow, len(Key._fields)
    query = (
        select(*key_columns(), *(getattr(row, name) for name in MOMENTS))
        .join(JobClassRow, JobClassRow.id == row.job_class_id)
        .where(JobClassRow.site_id == site_id)
        .order_by(row.id)
    )
    return {Key(*one[:n]): RunStatistics(*one[n:]) for one in session.execute(query)}


def read_stored(
    session: Session, site_id: int, job_class_ids: Collection[int] | None = None, since: int = 0
) -> dict[Key, StoredStatistics]:
    """The statistics of a site with their quantiles, or those of some job classes, that changed after run
    `since`."""
    row = ExecutionStatisticsRow
    query = (
        select(row.id, *key_columns(), *stored_columns(row))
        .join(JobClassRow, JobClassRow.id == row.job_class_id)
        .where(JobClassRow.site_id == site_id, row.changed_at > since)
    )
    if job_class_ids is not None:
        query = query.where(row.job_class_id.in_(job_class_ids))
    return dict(stored_of(id, columns) for id, *columns in session.execute(query))


def write_stored(session: Session, changed: Mapping[Key, StoredStatistics], number: int) -> None:
    """Write statistics that run `number` was the last to change; those that have no row yet get one."""
    row = ExecutionStatisticsRow
    new = [(key, kept) for key, kept in changed.items() if kept.id is None]
    old = [(*kept.values(), number, kept.id) for kept in changed.values() if kept.id is not None]
    update_rows(session, row, (*STORED, "changed_at"), old)
    if not new:
        return
    columns = (*Key._fields, *STORED, "changed_at")
    insert_rows(session, row, columns, [(*key, *kept.values(), number) for key, kept in new])
    classes = {key.job_class_id for key, _ in new}
    query = select(row.id, *key_columns()).where(row.job_class_id.in_(classes), row.changed_at == number)
    ids = {Key(*columns): id for id, *columns in session.execute(query)}
    for key, kept in new:
        kept.id = ids[key]


def key_columns() -> list[InstrumentedAttribute[Any]]:
    """The columns that say what a row of statistics is about."""
    return [getattr(ExecutionStatisticsRow, name) for name in Key._fields]


def stored_columns(
    row: type[ExecutionStatisticsRow] | type[ExecutionSnapshotRow],
) -> list[InstrumentedAttribute[Any]]:
    """The columns STORED of statistics, or of their copies."""
    return [getattr(row, name) for name in STORED]


def stored_of(id: int, columns: Sequence[Any]) -> tuple[Key, StoredStatistics]:
    """What a row of `key_columns` and `stored_columns` says."""
    n = len(Key._fields)
    *moments, sketch = columns[n:]
    return Key(*columns[:n]), StoredStatistics(RunStatistics(*moments), QuantileSketch.from_bytes(sketch), id)
