"""The statistics as of a past run: the last snapshots before it, and the runs since."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import isclose

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session, aliased

from scheduler import UserError
from site_db import schema
from site_db.history.stored_statistics import (
    MOMENTS,
    CompletedRun,
    Key,
    StoredStatistics,
    key_columns,
    read_stored,
    stored_columns,
    stored_of,
)


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
    row, snapshot = schema.ExecutionStatisticsRow, schema.ExecutionSnapshotRow
    earlier = aliased(snapshot)
    latest = (
        select(func.max(earlier.number))
        .where(earlier.statistics_id == row.id, earlier.number <= number)
        .scalar_subquery()
    )
    query = (
        select(snapshot.number, row.id, *key_columns(), *stored_columns(snapshot))
        .join(schema.JobClassRow, schema.JobClassRow.id == row.job_class_id)
        .join(snapshot, (snapshot.statistics_id == row.id) & (snapshot.number == latest))
        .where(schema.JobClassRow.site_id == site_id)
    )
    snapshots = session.execute(query).all()
    found = dict(stored_of(*values) for _, *values in snapshots)
    last = max((at for at, *_ in snapshots), default=site.runs_pruned)
    add_runs(session, site_id, max(last, site.runs_pruned), number, found)
    return found


def add_runs(
    session: Session, site_id: int, after: int, to: int, statistics: dict[Key, StoredStatistics]
) -> None:
    """Add the runs `after` < number <= `to` of the history to the statistics that include them."""
    run, machine = schema.ExecutionHistoryRow, schema.MachineRow
    same_machine = case((run.number > machine.runs_before, run.machine_id))
    query = (
        select(
            *(same_machine if name == "machine_id" else getattr(run, name) for name in CompletedRun._fields)
        )
        .outerjoin(machine, machine.id == run.machine_id)
        .where(run.site_id == site_id, run.number > after, run.number <= to)
        .order_by(run.number)
    )
    for key, runs in runs_by_key(CompletedRun(*values) for values in session.execute(query)).items():
        statistics.setdefault(key, StoredStatistics()).add(runs)


def runs_by_key(runs: Iterable[CompletedRun]) -> dict[Key, list[CompletedRun]]:
    """The runs that each row of statistics includes."""
    by_key: defaultdict[Key, list[CompletedRun]] = defaultdict(list)
    for run in runs:
        for key in run.statistics_keys():
            by_key[key].append(run)
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
