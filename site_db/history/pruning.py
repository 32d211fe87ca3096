"""Deleting old runs and their jobs; their statistics remain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import CursorResult, delete, func, select, update
from sqlalchemy.orm import Session

from site_db.history.as_of import read_stored_as_of
from site_db.history.stored_statistics import read_stored, write_snapshots
from site_db.history.writer import HistoryWriter
from site_db.schema import (
    ExecutionHistoryRow,
    ExecutionSnapshotRow,
    ExecutionStatisticsRow,
    JobClassRow,
    JobRow,
    SiteRow,
)


def prune(session: Session, site_id: int, to: int) -> int:
    """Delete the runs up to number `to`. Returns how many were deleted.

    A snapshot of the statistics as of `to` is stored, from which all later ones follow. Raises PrunedHistory.
    """
    HistoryWriter(site_id).lock(session)
    to = max(to, session.get_one(SiteRow, site_id, populate_existing=True).runs_pruned)
    as_of = read_stored_as_of(session, site_id, to)
    of_site = (
        select(ExecutionStatisticsRow.id)
        .join(JobClassRow, JobClassRow.id == ExecutionStatisticsRow.job_class_id)
        .where(JobClassRow.site_id == site_id)
    )
    snapshot = ExecutionSnapshotRow
    session.execute(delete(snapshot).where(snapshot.statistics_id.in_(of_site), snapshot.number <= to))
    current = read_stored(session, site_id)
    write_snapshots(
        session, [replace(old, id=current[key].id) for key, old in as_of.items() if key in current], to
    )
    run = ExecutionHistoryRow
    deleted: CursorResult[Any] = session.execute(  # type: ignore[assignment]
        delete(run).where(run.site_id == site_id, run.number <= to)
    )
    _delete_jobs(session, site_id, to)
    session.execute(update(SiteRow).where(SiteRow.id == site_id).values(runs_pruned=to))
    return deleted.rowcount


def _delete_jobs(session: Session, site_id: int, to: int) -> None:
    """Delete the jobs of deleted runs, and those recorded before them that have no completed run."""
    job = JobRow
    last = session.scalar(select(func.max(job.serial)).where(job.site_id == site_id, job.run_number <= to))
    if last is not None:
        without_run = job.state.in_(("failed", "refused"))
        session.execute(
            delete(job).where(
                job.site_id == site_id, (job.run_number <= to) | ((job.serial < last) & without_run)
            )
        )
