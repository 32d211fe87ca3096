"""The weeks of a log, and its replications: weeks drawn from it with replacement (block bootstrap)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import polars as pl

from sil.trace.log_ids import LOG_ID
from sil.workload.job_log import JobLog
from site_db.files.given import InvalidFile
from site_db.files.memory import Memory

DAY_S = 86_400.0
WEEK_S = 7 * DAY_S
BYTES_OF_A_WEEK, BYTES_OF_A_JOB = 100, 3_000
"""Memory of a drawn week, and of each of its jobs in a run."""
FEWEST_WEEKS = 2
ENOUGH_WEEKS = 8
"""Of fewer, a bootstrap's intervals are much too narrow: it sees (n - 1) / n of the variance of means of n
weeks, and a t-quantile of n - 1 degrees of freedom would be needed."""


def n_weeks(log: JobLog) -> int:
    """The whole weeks of a log, from its first submission on. One is whole if jobs were submitted until its
    last day."""
    return int((log.span_s + DAY_S) // WEEK_S)


def weeks_of(log: JobLog) -> list[JobLog]:
    """The whole weeks of a log, each as a log of its own, except those without a job."""
    week = ((log.jobs["submit_s"] - log.jobs["submit_s"][0]) // WEEK_S).cast(pl.Int64)
    with_jobs = sorted(k for k in week.unique().to_list() if k < n_weeks(log))
    return [
        replace(log, name=f"{log.name}, week {k + 1}", jobs=log.jobs.filter(week == k)) for k in with_jobs
    ]


def check_weeks(log: JobLog) -> None:
    """Raises InvalidFile for a log that is too short to draw weeks from it."""
    if n_weeks(log) < FEWEST_WEEKS:
        raise InvalidFile(
            f"{log.name}: its submissions span {log.span_s / 86_400:,.1f} days; expected "
            f"{FEWEST_WEEKS} whole weeks or more"
        )


def few_weeks(log: JobLog) -> Iterator[str]:
    """A warning, if replications draw from few weeks."""
    n = n_weeks(log)
    if n < ENOUGH_WEEKS:
        yield (
            f"replications draw from only {n} whole weeks of {log.name}: intervals are too narrow, since "
            f"nothing is known of other weeks"
        )


def drawn_weeks(log: JobLog, weeks: int, rng: np.random.Generator) -> JobLog:
    """`weeks` whole weeks of a log, drawn independently with replacement, one after the other.

    Days of the week and times of day stay, as do the bursts and the users within a week; what connects one
    week to the next is lost. Jobs are numbered from 1,
    and lose their ids. Source: Kuensch, "The jackknife and the bootstrap for
    general stationary observations", Annals of Statistics 17 (1989), with blocks that do not overlap.
    """
    n_jobs = len(log.jobs) / n_weeks(log)
    what = f"{weeks:,} weeks of {log.name}, with {n_jobs:,.0f} jobs each"
    Memory(what).take(weeks * (BYTES_OF_A_WEEK + n_jobs * BYTES_OF_A_JOB))
    first_s = float(log.jobs["submit_s"][0])
    week = pl.col("week")
    jobs = log.jobs.with_columns(week=((pl.col("submit_s") - first_s) // WEEK_S).cast(pl.Int64))
    chosen = rng.integers(n_weeks(log), size=weeks)
    slots = pl.DataFrame({"week": chosen, "slot": np.arange(weeks)})
    drawn = (
        slots.join(jobs, on="week", how="inner", maintain_order="left_right")
        .with_columns(submit_s=pl.col("submit_s") - first_s + (pl.col("slot") - week) * WEEK_S)
        .with_columns(job=pl.int_range(1, pl.len() + 1))
        .select(log.jobs.columns)
        .drop(LOG_ID, strict=False)
    )
    return replace(log, jobs=drawn, part=(*log.part, f"{weeks} weeks drawn from {n_weeks(log)}"))
