"""The rows of statistics: for each job class in each place, the moments and quantiles of its runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import InstrumentedAttribute, Session

from site_db.bulk import insert_rows, update_rows
from site_db.history.quantile_sketch import QuantileSketch
from site_db.history.statistics import RunStatistics
from site_db.history.whole_run import Key
from site_db.schema import ExecutionSnapshotRow, ExecutionStatisticsRow, JobClassRow, SiteRow

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
KEPT = (*MOMENTS, "sketch")
"""The columns of a row of statistics, and of its copies."""

_moments = attrgetter(*MOMENTS)


@dataclass(slots=True)
class Kept:
    """Moments and quantiles of the runs of one key; `id` is its row, None before there is one."""

    runs: RunStatistics = field(default_factory=RunStatistics)
    sketch: QuantileSketch = field(default_factory=QuantileSketch)
    id: int | None = None

    def add(self, run_times_s: Sequence[float], sizes: Sequence[float | None]) -> None:
        """Count some more runs, each with its size or None."""
        self.runs = self.runs.merged(RunStatistics.of(run_times_s, sizes))
        self.sketch.add(run_times_s)

    def merge(self, other: Kept) -> None:
        """Count the runs of another one, too."""
        self.runs = self.runs.merged(other.runs)
        self.sketch.merge(other.sketch)

    def values(self) -> tuple[Any, ...]:
        """Its values for the columns KEPT."""
        return (*_moments(self.runs), self.sketch.to_bytes())

    def columns(self) -> dict[str, Any]:
        """The same by name."""
        return dict(zip(KEPT, self.values(), strict=True))


@dataclass(frozen=True, slots=True)
class Changes:
    """The statistics without quantiles that changed after some run; `last` is the last run that changed any,
    `version` that of the site when they were read."""

    statistics: Mapping[Key, RunStatistics]
    last: int
    version: int


def read_changes(session: Session, site_id: int, since: int = 0) -> Changes:
    """The statistics of a site that changed after run `since`: one query."""
    row, site = ExecutionStatisticsRow, SiteRow
    of_class = row.job_class_id == JobClassRow.id
    changed = JobClassRow.__table__.join(row.__table__, of_class & (row.changed_at > since))
    query = (
        select(site.version, row.changed_at, *key_columns(), *(getattr(row, name) for name in MOMENTS))
        .select_from(site.__table__.outerjoin(changed, JobClassRow.site_id == site.id))
        .where(site.id == site_id)
        .order_by(row.id)
    )
    n = 2 + len(Key._fields)
    rows = session.execute(query).all()
    statistics = {Key(*one[2:n]): RunStatistics(*one[n:]) for one in rows if one[1] is not None}
    # Whoever records waits for the others to commit, so what is not there yet has greater numbers.
    last = max((one[1] for one in rows if one[1] is not None), default=since)
    return Changes(statistics, last, rows[0][0])


def read_kept(
    session: Session, site_id: int, job_class_ids: Collection[int] | None = None, since: int = 0
) -> dict[Key, Kept]:
    """The statistics of a site with their quantiles, or those of some job classes, that changed after run
    `since`."""
    row = ExecutionStatisticsRow
    query = (
        select(row.id, *key_columns(), *kept_columns(row))
        .join(JobClassRow, JobClassRow.id == row.job_class_id)
        .where(JobClassRow.site_id == site_id, row.changed_at > since)
    )
    if job_class_ids is not None:
        query = query.where(row.job_class_id.in_(job_class_ids))
    return dict(kept_of(id, columns) for id, *columns in session.execute(query))


def write_kept(session: Session, changed: Mapping[Key, Kept], number: int) -> None:
    """Write statistics that run `number` was the last to change; those that have no row yet get one."""
    row = ExecutionStatisticsRow
    new = [(key, kept) for key, kept in changed.items() if kept.id is None]
    old = [(*kept.values(), number, kept.id) for kept in changed.values() if kept.id is not None]
    update_rows(session, row, (*KEPT, "changed_at"), old)
    if not new:
        return
    columns = (*Key._fields, *KEPT, "changed_at")
    insert_rows(session, row, columns, [(*key, *kept.values(), number) for key, kept in new])
    classes = {key.job_class_id for key, _ in new}
    query = select(row.id, *key_columns()).where(row.job_class_id.in_(classes), row.changed_at == number)
    ids = {Key(*columns): id for id, *columns in session.execute(query)}
    for key, kept in new:
        kept.id = ids[key]


def key_columns() -> list[InstrumentedAttribute[Any]]:
    """The columns that say what a row of statistics is about."""
    return [getattr(ExecutionStatisticsRow, name) for name in Key._fields]


def kept_columns(
    row: type[ExecutionStatisticsRow] | type[ExecutionSnapshotRow],
) -> list[InstrumentedAttribute[Any]]:
    """The columns KEPT of statistics, or of their copies."""
    return [getattr(row, name) for name in KEPT]


def kept_of(id: int, columns: Sequence[Any]) -> tuple[Key, Kept]:
    """What a row of `key_columns` and `kept_columns` says."""
    n = len(Key._fields)
    *moments, sketch = columns[n:]
    return Key(*columns[:n]), Kept(RunStatistics(*moments), QuantileSketch.from_bytes(sketch), id)
