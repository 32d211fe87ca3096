"""The past jobs of a site: one by one, their arrivals and shares, and what they used in all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import ColumnElement, case, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from scheduler.messages import UserError, counted
from site_db.jobs.records import DemandBy, JobState, SourceKind
from site_db.schema import JobClassRow, JobDataRow, JobRow, SourceRow, UserRow
from site_db.site_file.cluster import HeldResources
from site_db.site_file.tables import DataTable, SiteFile


class PastJob(NamedTuple):
    number: str
    job_class: str
    user: str
    queue: str
    account: str
    qos: str
    submitted_unix_s: float
    started_unix_s: float
    run_s: float
    time_limit_s: float | None


def past_jobs(session: Session, site_id: int, site: str, days: float | None = None) -> Sequence[PastJob]:
    """The jobs that ran, completed or not, and were not simulated, in order of submission; those of the last
    `days` if given. Raises UserError."""
    ran = JobRow.state.in_((JobState.DONE.value, JobState.FAILED.value))
    there = (*observed(site_id), JobRow.ended_unix_s.is_not(None), ran)
    run_s = JobRow.ended_unix_s - JobRow.started_unix_s
    of_user = (UserRow.name, JobRow.queue, JobRow.account, JobRow.qos)
    columns = (JobRow.number, JobClassRow.name, *of_user, JobRow.submitted_unix_s, JobRow.started_unix_s)
    found = _of_last(session, days, there, *columns, run_s, JobRow.time_limit_s)
    if not found:
        raise UserError(
            f"the database has no past jobs of the site '{site}'; import them from a log "
            f"(`sil db import-sacct`)"
        )
    return [PastJob._make(row) for row in found]


def with_recorded_data(session: Session, site_id: int, file: SiteFile) -> SiteFile:
    """The site, with the data of job classes that do not state them: at the cluster where most recorded jobs
    have theirs, with the mean sizes there."""
    row, groups = JobDataRow, (JobClassRow.name, JobDataRow.at)
    means = func.avg(row.input_mb), func.avg(row.output_mb)
    there = select(*groups, *means).select_from(JobRow).join(row).join(JobClassRow).where(*observed(site_id))
    found = dict[str, DataTable]()
    for name, at, read, written in session.execute(there.group_by(*groups).order_by(func.count(), row.at)):
        found[name] = DataTable(input_mb=read, output_mb=written, at=at)
    classes = (of.model_copy(update={"data": of.data or found.get(of.name)}) for of in file.job_classes)
    return file.model_copy(update={"job_classes": tuple(classes)})


SIZES = 10
"""The number of quantiles that represent the sizes of a class: the middles of its tenths."""
DAY_S = 86_400.0


@dataclass(frozen=True)
class Arrived:
    """`per_s` is the rate of jobs; shares are by name."""

    jobs: int
    per_s: float
    job_classes: Mapping[str, float]
    queues: Mapping[str, float]
    users: Mapping[str, float]
    sizes: Mapping[str, tuple[float, ...]]


def observed(site_id: int) -> tuple[ColumnElement[bool], ...]:
    """Conditions for the jobs of a site that were not simulated."""
    simulated = select(SourceRow.id).where(
        SourceRow.site_id == site_id, SourceRow.kind == SourceKind.TESTBED.value
    )
    return JobRow.site_id == site_id, JobRow.source_id.not_in(simulated)


def what_arrived(session: Session, site_id: int, site: str, days: float | None = None) -> Arrived:
    """The arrivals of all jobs of a site that were not simulated, or of the last `days`.

    Raises UserError.
    """
    columns = (JobRow.submitted_unix_s, JobClassRow.name, JobRow.queue, UserRow.name, JobRow.size)
    rows = _of_last(session, days, observed(site_id), *columns)
    span_s = rows[-1][0] - rows[0][0] if rows else 0.0
    if len(rows) < 2 or span_s <= 0.0:
        when = "" if days is None else f" in the last {days:g} days"
        raise UserError(
            f"the database has {counted(len(rows), 'job')} of the site '{site}'{when}, too few to estimate "
            f"the arrival rate; import them from a log (`sil db import-sacct`, `import-swf`)"
        )
    _, classes, queues, users, _ = zip(*rows, strict=True)
    sizes: defaultdict[str, list[float]] = defaultdict(list)
    for _, job_class, _, _, size in rows:
        if size is not None:
            sizes[job_class].append(size)
    tenths = (np.arange(SIZES) + 0.5) / SIZES
    of_classes = {name: tuple(np.quantile(drawn, tenths).tolist()) for name, drawn in sizes.items()}
    per_s = (len(rows) - 1) / span_s
    return Arrived(len(rows), per_s, _shares(classes), _shares(queues), _shares(users), of_classes)


def _of_last(
    session: Session, days: float | None, there: tuple[ColumnElement[bool], ...], *columns: Any
) -> Sequence[Any]:
    """Columns of jobs in order of submission, or only of those of the last `days`."""
    if days is not None:
        last_s = session.scalar(select(func.max(JobRow.submitted_unix_s)).where(*there))
        there = (*there, JobRow.submitted_unix_s >= (last_s or 0.0) - days * DAY_S)
    query = (
        select(*columns)
        .join(JobClassRow, JobClassRow.id == JobRow.job_class_id)
        .join(UserRow, UserRow.id == JobRow.user_id)
        .where(*there)
        .order_by(JobRow.submitted_unix_s, JobRow.serial)
    )
    return session.execute(query).all()


def _shares(names: Collection[str]) -> dict[str, float]:
    return {name: count / len(names) for name, count in sorted(Counter(names).items())}


HOUR_S = 3600.0

_KEYS: Mapping[DemandBy, InstrumentedAttribute[str]] = {
    DemandBy.PARTITION: JobRow.queue,
    DemandBy.ACCOUNT: JobRow.account,
    DemandBy.QOS: JobRow.qos,
    DemandBy.USER: UserRow.name,
}


@dataclass
class JobTotals:
    """What some jobs used: their number, how many completed, the hours of the CPUs and GPUs that they kept
    from others (`SiteNodes.held`), and the sum of their waiting times."""

    jobs: int = 0
    completed: int = 0
    cpu_h: float = 0.0
    gpu_h: float = 0.0
    waiting_s: float = 0.0

    def add(self, jobs: int, completed: int, held_s: float, waiting_s: float, held: HeldResources) -> None:
        """Add jobs of one class, each of which kept `held` from others, for `held_s` in total."""
        self.jobs += jobs
        self.completed += completed
        self.cpu_h += held_s * held.cpus / HOUR_S
        self.gpu_h += held_s * held.gpus / HOUR_S
        self.waiting_s += waiting_s


def demand(
    session: Session, site_id: int, held_by: Mapping[int, HeldResources], by: DemandBy
) -> Mapping[str, JobTotals]:
    """The demand of all jobs that started and were not simulated; the largest number of CPU hours first.

    `held_by` has what a job of a class keeps from others, by the id of the class; others have one CPU.
    """
    key: Any = _KEYS.get(by, case((JobRow.state == JobState.DONE.value, "COMPLETED"), else_=JobRow.reason))
    done = func.sum(case((JobRow.state == JobState.DONE.value, 1), else_=0))
    held_s = func.sum(JobRow.ended_unix_s - JobRow.started_unix_s)
    waiting_s = func.sum(JobRow.started_unix_s - JobRow.submitted_unix_s)
    query = (
        select(key, JobRow.job_class_id, func.count(), done, held_s, waiting_s)
        .join(UserRow, UserRow.id == JobRow.user_id)
        .where(*observed(site_id), JobRow.ended_unix_s.is_not(None))
        .group_by(key, JobRow.job_class_id)
        .order_by(key, JobRow.job_class_id)
    )
    found: defaultdict[str, JobTotals] = defaultdict(JobTotals)
    for name, job_class_id, jobs, completed, ran_s, waited_s in session.execute(query):
        found[name].add(jobs, completed, ran_s, waited_s, held_by.get(job_class_id, HeldResources(1, 0)))
    return dict(sorted(found.items(), key=lambda item: (-item[1].cpu_h, item[0])))
