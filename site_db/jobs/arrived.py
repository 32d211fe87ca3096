"""The past arrivals of a site: their rate, and the shares of classes, queues, users and sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from scheduler import UserError, counted
from site_db.jobs.records import SourceKind
from site_db.schema import JobClassRow, JobRow, SourceRow, UserRow

SIZES = 10
"""The sizes of a class are represented by so many quantiles: the middles of its tenths."""
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
    there = observed(site_id)
    last_s = session.scalar(select(func.max(JobRow.submitted_unix_s)).where(*there))
    since_s = -np.inf if days is None or last_s is None else last_s - days * DAY_S
    if since_s > -np.inf:
        there = (*there, JobRow.submitted_unix_s >= since_s)
    query = (
        select(JobRow.submitted_unix_s, JobClassRow.name, JobRow.queue, UserRow.name, JobRow.size)
        .join(JobClassRow, JobClassRow.id == JobRow.job_class_id)
        .join(UserRow, UserRow.id == JobRow.user_id)
        .where(*there)
        .order_by(JobRow.submitted_unix_s, JobRow.serial)
    )
    rows = session.execute(query).all()
    span_s = rows[-1][0] - rows[0][0] if rows else 0.0
    if len(rows) < 2 or span_s <= 0.0:
        when = "" if days is None else f" in the last {days:g} days"
        raise UserError(
            f"the database has {counted(len(rows), 'job')} of the site '{site}'{when}, too few to estimate "
            f"the arrival rate; import them from a log (`sil db import-sacct`, `import-swf`)"
        )
    _, classes, queues, users, _ = zip(*rows, strict=True)
    sizes: dict[str, list[float]] = {}
    for _, job_class, _, _, size in rows:
        if size is not None:
            sizes.setdefault(job_class, []).append(size)
    tenths = (np.arange(SIZES) + 0.5) / SIZES
    return Arrived(
        len(rows),
        (len(rows) - 1) / span_s,
        _shares(classes),
        _shares(queues),
        _shares(users),
        {name: tuple(np.quantile(drawn, tenths).tolist()) for name, drawn in sizes.items()},
    )


def _shares(names: Collection[str]) -> dict[str, float]:
    return {name: count / len(names) for name, count in sorted(Counter(names).items())}
