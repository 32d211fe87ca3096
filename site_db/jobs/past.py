"""The past jobs of a site that used its nodes, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from scheduler import UserError
from site_db.jobs.arrived import DAY_S, observed
from site_db.jobs.records import JobState
from site_db.schema import JobClassRow, JobRow, UserRow


class PastJob(NamedTuple):
    number: str
    job_class: str
    user: str
    queue: str
    submitted_unix_s: float
    run_s: float
    time_limit_s: float | None


def past_jobs(session: Session, site_id: int, site: str, days: float | None = None) -> Sequence[PastJob]:
    """The jobs that ran, completed or not, and were not simulated, in order of submission; those of the last
    `days` if given. Raises UserError."""
    there = (*observed(site_id), JobRow.ended_unix_s.is_not(None), JobRow.state.in_(_RAN))
    if days is not None:
        last_s = session.scalar(select(func.max(JobRow.submitted_unix_s)).where(*there))
        there = (*there, JobRow.submitted_unix_s >= (last_s or 0.0) - days * DAY_S)
    query = (
        select(
            JobRow.number,
            JobClassRow.name,
            UserRow.name,
            JobRow.queue,
            JobRow.submitted_unix_s,
            JobRow.ended_unix_s - JobRow.started_unix_s,
            JobRow.time_limit_s,
        )
        .join(JobClassRow, JobClassRow.id == JobRow.job_class_id)
        .join(UserRow, UserRow.id == JobRow.user_id)
        .where(*there)
        .order_by(JobRow.submitted_unix_s, JobRow.serial)
    )
    found = [PastJob._make(row) for row in session.execute(query)]
    if not found:
        raise UserError(
            f"the database has no past jobs of the site '{site}'; import them from a log "
            f"(`sil db import-sacct`)"
        )
    return found


_RAN = (JobState.DONE.value, JobState.FAILED.value)
