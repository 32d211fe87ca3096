"""Stored statistics: for each job class in each place, the moments and quantiles of its completed runs, now
or as they were after an earlier run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import isclose
from typing import Any, NamedTuple

from sqlalchemy import Select, case, func, select
from sqlalchemy.orm import Session, aliased

from scheduler import UserError
from site_db import schema
from site_db.history.statistics import QuantileSketch, RunStatistics
from site_db.rows import insert_rows, update_rows
from site_db.schema import ExecutionSnapshotRow, ExecutionStatisticsRow, JobClassRow

MOMENTS = tuple(moment.name for moment in fields(RunStatistics))
STORED = (*MOMENTS, "sketch")
"""The columns of a row of statistics and of its snapshots."""
Run = Mapping[str, Any]
"""A row of the execution history: a completed run on a machine, on an unknown machine of a class, or on a
cluster: columns of its row of the execution history."""


class Key(NamedTuple):
    """The job class and the place of a row of statistics, by ids; one of the three places is given."""

    job_class_id: int
    machine_class_id: int | None = None
    machine_id: int | None = None
    cluster_id: int | None = None
    members: int | None = None


@dataclass(slots=True)
class StoredStatistics:
    """Moments and quantiles of the runs of one key; `id` is its row, None before there is one."""

    runs: RunStatistics = field(default_factory=RunStatistics)
    sketch: QuantileSketch = field(default_factory=QuantileSketch)
    id: int | None = None

    def add(self, runs: Sequence[Run]) -> None:
        run_times_s = [run["run_time_s"] for run in runs]
        self.runs = self.runs.merged(RunStatistics.of(run_times_s, [run["size"] for run in runs]))
        self.sketch.add(run_times_s)

    def merge(self, other: StoredStatistics) -> None:
        self.runs = self.runs.merged(other.runs)
        self.sketch.merge(other.sketch)

    def columns(self) -> dict[str, Any]:
        """Values of the columns STORED."""
        return {name: getattr(self.runs, name) for name in MOMENTS} | {"sketch": self.sketch.to_bytes()}


def read_moments(session: Session, site_id: int) -> dict[Key, RunStatistics]:
    """The statistics of a site without quantiles."""
    row, n = ExecutionStatisticsRow, len(Key._fields)
    query = of_site(site_id, *_columns(row, *Key._fields, *MOMENTS)).order_by(row.id)
    return {Key(*values[:n]): RunStatistics(*values[n:]) for values in session.execute(query)}


def read_stored(
    session: Session, site_id: int, job_class_ids: Collection[int] | None = None, since: int = 0
) -> dict[Key, StoredStatistics]:
    """The statistics of a site, or of some of its job classes, that changed after run `since`."""
    row = ExecutionStatisticsRow
    query = of_site(site_id, *_columns(row, "id", *Key._fields, *STORED)).where(row.changed_at > since)
    if job_class_ids is not None:
        query = query.where(row.job_class_id.in_(job_class_ids))
    return dict(_stored(*values) for values in session.execute(query))


def _columns(row: type[schema.Base], *names: str) -> list[Any]:
    return [getattr(row, name) for name in names]


def of_site(site_id: int, *columns: Any) -> Select[Any]:
    """Columns of the statistics of a site."""
    row = ExecutionStatisticsRow
    classes = select(*columns).select_from(row).join(JobClassRow, JobClassRow.id == row.job_class_id)
    return classes.where(JobClassRow.site_id == site_id)


def _stored(id: int, *columns: Any) -> tuple[Key, StoredStatistics]:
    n = len(Key._fields)
    *moments, sketch = columns[n:]
    return Key(*columns[:n]), StoredStatistics(RunStatistics(*moments), QuantileSketch.from_bytes(sketch), id)


def write_stored(session: Session, changed: Mapping[Key, StoredStatistics], number: int) -> None:
    """Update or insert the statistics that run `number` was the last to change."""
    row = ExecutionStatisticsRow
    old = {stored.id: stored.columns() for stored in changed.values() if stored.id is not None}
    update_rows(session, row, [*old], [columns | {"changed_at": number} for columns in old.values()])
    new = {key: stored for key, stored in changed.items() if stored.id is None}
    if not new:
        return
    rows = [{**key._asdict(), **one.columns(), "changed_at": number} for key, one in new.items()]
    insert_rows(session, row, rows)
    classes = {key.job_class_id for key in new}
    query = select(*_columns(row, "id", *Key._fields))
    written = query.where(row.job_class_id.in_(classes), row.changed_at == number)
    ids = {Key(*columns): id for id, *columns in session.execute(written)}
    for key, stored in new.items():
        stored.id = ids[key]


def write_snapshots(session: Session, statistics: Iterable[StoredStatistics], number: int) -> None:
    """Store statistics as of run `number`, to be read when later runs have changed them."""
    rows = [{"statistics_id": stored.id, "number": number, **stored.columns()} for stored in statistics]
    insert_rows(session, ExecutionSnapshotRow, rows)


def read_stored_as_of(session: Session, site_id: int, number: int) -> dict[Key, StoredStatistics]:
    """All statistics with quantiles as they were after run `number`.

    Reads no more runs than there are between two snapshots. Raises UserError for a run that was pruned or
    is not recorded yet.
    """
    site = session.get_one(schema.SiteRow, site_id, populate_existing=True)
    if not site.runs_pruned <= number <= site.runs_recorded:
        raise UserError(
            f"the history of the site '{site.name}' can be read as of run {site.runs_pruned} to "
            f"{site.runs_recorded}, not as of run {number}"
        )
    row, snapshot = ExecutionStatisticsRow, ExecutionSnapshotRow
    earlier = aliased(snapshot)
    latest = (
        select(func.max(earlier.number))
        .where(earlier.statistics_id == row.id, earlier.number <= number)
        .scalar_subquery()
    )
    columns = snapshot.number, *_columns(row, "id", *Key._fields), *_columns(snapshot, *STORED)
    is_latest = (snapshot.statistics_id == row.id) & (snapshot.number == latest)
    snapshots = session.execute(of_site(site_id, *columns).join(snapshot, is_latest)).all()
    found = dict(_stored(*values) for _, *values in snapshots)
    last = max((at for at, *_ in snapshots), default=site.runs_pruned)
    add_runs(session, site_id, max(last, site.runs_pruned), number, found)
    return found


def add_runs(
    session: Session, site_id: int, after: int, to: int, statistics: dict[Key, StoredStatistics]
) -> None:
    """Add the runs `after` < number <= `to` of the history to the statistics that include them."""
    run, machine = schema.ExecutionHistoryRow, schema.MachineRow
    same_machine = case((run.number > machine.runs_before, run.machine_id)).label("machine_id")
    columns = _columns(run, "job_class_id", "machine_class_id", "cluster_id", "members", "run_time_s", "size")
    query = (
        select(same_machine, *columns)
        .outerjoin(machine, machine.id == run.machine_id)
        .where(run.site_id == site_id, run.number > after, run.number <= to)
        .order_by(run.number)
    )
    for key, runs in runs_by_key(dict(row) for row in session.execute(query).mappings()).items():
        statistics.setdefault(key, StoredStatistics()).add(runs)


def runs_by_key(runs: Iterable[Run]) -> dict[Key, list[Run]]:
    """The runs that each row of statistics includes: a machine's count for its class, too."""
    by_key: defaultdict[Key, list[Run]] = defaultdict(list)
    for run in runs:
        job_class_id, machine_id, cluster_id = run["job_class_id"], run["machine_id"], run["cluster_id"]
        if cluster_id is not None:
            by_key[Key(job_class_id, None, None, cluster_id, run["members"])].append(run)
            continue
        by_key[Key(job_class_id, run["machine_class_id"])].append(run)
        if machine_id is not None:
            by_key[Key(job_class_id, None, machine_id)].append(run)
    return by_key


def disagreements(session: Session, site_id: int) -> Sequence[Key]:
    """The statistics that differ from those of the history: counts exactly, moments by more than 1e-9.

    Reads the whole history.
    """
    site = session.get_one(schema.SiteRow, site_id, populate_existing=True)
    expected = read_stored_as_of(session, site_id, site.runs_pruned)
    add_runs(session, site_id, site.runs_pruned, site.runs_recorded, expected)
    stored = read_stored(session, site_id)
    return [
        key
        for key in sorted(expected.keys() | stored.keys(), key=str)
        if not (key in expected and key in stored and _agree(expected[key], stored[key]))
    ]


def _agree(one: StoredStatistics, other: StoredStatistics) -> bool:
    runs = one.runs
    # Sums of products may be near zero: they are as exact as their factors.
    scale = {
        "squares_s2": runs.count * runs.mean_s**2,
        "squares_size2": runs.sized_count * runs.mean_size**2,
        "products": runs.sized_count * runs.sized_mean_s * runs.mean_size,
    }
    close = all(
        isclose(getattr(runs, m), getattr(other.runs, m), rel_tol=1e-9, abs_tol=1e-12 * scale.get(m, 0.0))
        for m in MOMENTS
    )
    return runs.count == other.runs.count and close and one.sketch.bins() == other.sketch.bins()
