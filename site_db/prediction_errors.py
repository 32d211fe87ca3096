"""Errors of past turnaround predictions."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from site_db.schema import ExecutionHistoryRow, JobClassRow, JobRow, PredictionRow, SourceRow

MOST_ERRORS = 200_000
"""Greatest number of predictions that are read, the latest ones of one scheduler."""


class KnownError(NamedTuple):
    """The error of a prediction: `ratio` is actual by predicted seconds from the prediction to the job's end.

    `waiting` and `jobs_there` (jobs that had not ended) describe the moment of the prediction.
    """

    scheduler: str
    predictor: str
    job_class: str
    tasks: int
    waiting: bool
    jobs_there: int
    ratio: float


def schedulers_predicted(session: Session, site_id: int) -> list[str]:
    """The schedulers under which turnaround was predicted, by their given names."""
    predicted = exists().where(
        PredictionRow.site_id == JobRow.site_id,
        PredictionRow.job_serial == JobRow.serial,
        PredictionRow.quantity == "turnaround",
    )
    of_one = exists().where(JobRow.source_id == SourceRow.id, predicted)
    query = select(SourceRow.scheduler).where(SourceRow.site_id == site_id, of_one).distinct()
    return sorted(name or "" for name in session.scalars(query))


def known_errors(session: Session, site_id: int, scheduler: str, as_of: int) -> list[KnownError]:
    """The errors for all jobs under a scheduler that had ended as of run `as_of`, in the order of their ends.

    Jobs whose runs were pruned are left out.
    """
    run, job, made = ExecutionHistoryRow, JobRow, PredictionRow
    query = (
        select(
            made.predictor,
            JobClassRow.name,
            run.members,
            made.waiting,
            made.jobs_there,
            job.submitted_unix_s,
            made.made_unix_s,
            made.predicted_s,
            made.actual_s,
        )
        .join(job, (job.site_id == made.site_id) & (job.serial == made.job_serial))
        .join(run, (run.site_id == job.site_id) & (run.number == job.run_number))
        .join(SourceRow, SourceRow.id == job.source_id)
        .join(JobClassRow, JobClassRow.id == job.job_class_id)
        .where(
            made.site_id == site_id,
            func.coalesce(SourceRow.scheduler, "") == scheduler,
            made.quantity == "turnaround",
            made.actual_s.is_not(None),
            made.jobs_there.is_not(None),
            job.run_number <= as_of,
        )
        .order_by(job.run_number.desc(), made.id.desc())
        .limit(MOST_ERRORS)
    )
    errors = []
    for row in session.execute(query):
        elapsed_s = row.made_unix_s - row.submitted_unix_s
        if row.predicted_s > elapsed_s:
            ratio = (row.actual_s - elapsed_s) / (row.predicted_s - elapsed_s)
            alike = (row.members or 1, bool(row.waiting), row.jobs_there)
            errors.append(KnownError(scheduler, row.predictor, row.name, *alike, ratio))
    return errors[::-1]
