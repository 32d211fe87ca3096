"""Old runs and their jobs are forgotten; what they taught stays."""

from __future__ import annotations

from typing import Any

from sqlalchemy import CursorResult, delete, func, insert, select, update
from sqlalchemy.orm import Session

from site_db.history.as_of import read_stored_as_of
from site_db.history.stored_statistics import read_stored
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
    """Forget the runs up to number `to`; what they taught stays. Returns how many were forgotten.

    The statistics as of `to` are kept as a copy, from which all later ones can be told. Raises PrunedHistory.
    """
    HistoryWriter(site_id).lock(session)
    to = max(to, session.get_one(SiteRow, site_id, populate_existing=True).runs_pruned)
    as_it_was = read_stored_as_of(session, site_id, to)
    of_site = (
        select(ExecutionStatisticsRow.id)
        .join(JobClassRow, JobClassRow.id == ExecutionStatisticsRow.job_class_id)
        .where(JobClassRow.site_id == site_id)
    )
    copy = ExecutionSnapshotRow
    session.execute(delete(copy).where(copy.statistics_id.in_(of_site), copy.number <= to))
    ids = {key: kept.id for key, kept in read_stored(session, site_id).items()}
    copies = [
        {"statistics_id": ids[key], "number": to, **kept.columns()}
        for key, kept in as_it_was.items()
        if key in ids
    ]
    if copies:
        session.execute(insert(copy), copies)
    run = ExecutionHistoryRow
    gone: CursorResult[Any] = session.execute(  # type: ignore[assignment]
        delete(run).where(run.site_id == site_id, run.number <= to)
    )
    _forget_jobs(session, site_id, to)
    session.execute(update(SiteRow).where(SiteRow.id == site_id).values(runs_pruned=to))
    return gone.rowcount


def _forget_jobs(session: Session, site_id: int, to: int) -> None:
    """The jobs of forgotten runs, and those recorded before them that never came to a whole run."""
    job = JobRow
    last = session.scalar(select(func.max(job.serial)).where(job.site_id == site_id, job.run_number <= to))
    if last is not None:
        over = job.state.in_(("failed", "refused"))
        session.execute(
            delete(job).where(job.site_id == site_id, (job.run_number <= to) | ((job.serial < last) & over))
        )
