"""The statistics as they stood after a run: from copies made now and then, and the few runs since."""

from __future__ import annotations

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session, aliased

from scheduler.errors import UserError
from site_db.history.completed_run import CompletedRun, Key
from site_db.history.stored_statistics import StoredStatistics, key_columns, stored_columns, stored_of
from site_db.schema import (
    ExecutionHistoryRow,
    ExecutionSnapshotRow,
    ExecutionStatisticsRow,
    JobClassRow,
    MachineRow,
    SiteRow,
)


class PrunedHistory(UserError):
    """The history as it was then is forgotten. The message is one sentence for the user."""


def read_stored_as_of(session: Session, site_id: int, number: int) -> dict[Key, StoredStatistics]:
    """All statistics with quantiles as they stood after run `number`.

    Never more runs are read than there are from one copy to the next. Raises PrunedHistory where that is
    forgotten, and for a number that was not recorded yet.
    """
    site = session.get_one(SiteRow, site_id, populate_existing=True)
    if not site.runs_pruned <= number <= site.runs_recorded:
        raise PrunedHistory(
            f"the history of the site '{site.name}' can be read as of run {site.runs_pruned} to "
            f"{site.runs_recorded}, not as of run {number}"
        )
    found: dict[Key, StoredStatistics] = {}
    row, copy, earlier = ExecutionStatisticsRow, ExecutionSnapshotRow, aliased(ExecutionSnapshotRow)
    latest = (
        select(func.max(earlier.number))
        .where(earlier.statistics_id == row.id, earlier.number <= number)
        .scalar_subquery()
    )
    query = (
        select(copy.number, row.id, *key_columns(), *stored_columns(copy))
        .join(JobClassRow, JobClassRow.id == row.job_class_id)
        .join(copy, (copy.statistics_id == row.id) & (copy.number == latest))
        .where(JobClassRow.site_id == site_id)
    )
    copied_at = site.runs_pruned
    for at, id, *columns in session.execute(query):
        copied_at = max(copied_at, at)
        key, kept = stored_of(id, columns)
        found[key] = kept
    count_runs_in(session, site_id, copied_at, number, found)
    return found


def count_runs_in(
    session: Session, site_id: int, after: int, to: int, kept: dict[Key, StoredStatistics]
) -> None:
    """Add the runs `after` < number <= `to` of the history to the statistics that they count for."""
    run, machine = ExecutionHistoryRow, MachineRow
    counted = case((run.number > machine.runs_before, run.machine_id))
    query = (
        select(*(counted if name == "machine_id" else getattr(run, name) for name in CompletedRun._fields))
        .outerjoin(machine, machine.id == run.machine_id)
        .where(run.site_id == site_id, run.number > after, run.number <= to)
        .order_by(run.number)
    )
    by_key: dict[Key, list[tuple[float, float | None]]] = {}
    for columns in session.execute(query):
        completed_run = CompletedRun(*columns)
        for key in completed_run.counts_for():
            by_key.setdefault(key, []).append((completed_run.run_time_s, completed_run.size))
    for key, runs in by_key.items():
        kept.setdefault(key, StoredStatistics()).add(*zip(*runs, strict=True))
