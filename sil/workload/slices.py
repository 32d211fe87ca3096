"""Parts of a log: slices with equal numbers of jobs, and weeks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import polars as pl

from scheduler.messages import counted
from sil.trace.log_ids import LOG_ID
from sil.workload.job_log import JobLog, places
from site_db.files.access import Memory
from site_db.files.input_errors import InvalidFile

DAY_S = 86_400.0
WEEK_S = 7 * DAY_S
BYTES_OF_A_WEEK, BYTES_OF_A_JOB = 100, 3_000
"""The memory of a drawn week, and of each of its jobs in a run, in bytes."""
MIN_WEEKS = 2
ENOUGH_WEEKS = 8
"""The weeks without which a bootstrap's intervals are much too narrow: it sees (n - 1) / n of the variance of
means of n weeks, and a t-quantile of n - 1 degrees of freedom would be needed."""


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
    """Raise InvalidFile for a log that is too short to draw weeks from it."""
    if n_weeks(log) < MIN_WEEKS:
        raise InvalidFile(
            f"{log.name}: its submissions span {log.span_s / 86_400:,.1f} days; expected "
            f"{MIN_WEEKS} whole weeks or more"
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
    week to the next is lost. Jobs are numbered from 1, and lose their ids. Source: Kuensch, "The jackknife
    and the bootstrap for general stationary observations", Annals of Statistics 17 (1989), with blocks that
    do not overlap.
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


MAX_WARM_UP = 1_000
"""The most jobs before a slice, by default."""


@dataclass(frozen=True)
class Slice:
    """Jobs `begin` to `end` - 1 of a log, counted from 0 in order of submission."""

    log: JobLog
    """These jobs, and those that are replayed before and after them, but not measured."""
    begin: int
    end: int
    warm_up_jobs: int = 0
    cool_down_jobs: int = 0

    @property
    def name(self) -> str:
        """The slice as `--jobs` selects it."""
        return f"{self.begin}:{self.end}"


@dataclass(frozen=True)
class SlicedLog:
    """A log, and slices of it that do not overlap."""

    log: JobLog
    slices: tuple[Slice, ...]


def equal_slices(log: JobLog, n: int) -> SlicedLog:
    """All jobs in `n` slices, whose sizes differ by at most one job. Raises InvalidFile for more slices than
    jobs, or less than one."""
    n_jobs = len(log.jobs)
    if not 1 <= n <= n_jobs:
        raise InvalidFile(
            f"{log.name}: {counted(n_jobs, 'job')} cannot be cut into {n:,} slices; give a number from 1 to "
            f"{n_jobs:,}"
        )
    return SlicedLog(log, tuple(_slice(log, k * n_jobs // n, (k + 1) * n_jobs // n) for k in range(n)))


def slices_of_size(log: JobLog, size: int) -> SlicedLog:
    """Slices of `size` jobs, from the first job on; the jobs after the last whole slice are in none. Raises
    InvalidFile if there is none, or the size is less than one."""
    n_jobs = len(log.jobs)
    if not 1 <= size <= n_jobs:
        raise InvalidFile(
            f"{log.name}: {counted(n_jobs, 'job')} make no slice of {size:,}; give a number from 1 to "
            f"{n_jobs:,}"
        )
    begins = range(0, n_jobs - size + 1, size)
    return SlicedLog(log, tuple(_slice(log, begin, begin + size) for begin in begins))


def chosen_slices(log: JobLog, ranges: Sequence[str]) -> SlicedLog:
    """The slices `A:B`, in order of submission. Raises InvalidFile for an empty one, and for two that
    overlap, whose results would not be independent."""
    for text in ranges:
        log.slice(*places(text))  # which says how many jobs there are
    bounds = sorted(slice(*places(text)).indices(len(log.jobs))[:2] for text in ranges)
    for (begin, end), (next_begin, next_end) in pairwise(bounds):
        if next_begin < end:
            raise InvalidFile(
                f"{log.name}: slices {begin}:{end} and {next_begin}:{next_end} overlap; give slices without "
                "common jobs"
            )
    return SlicedLog(log, tuple(_slice(log, begin, end) for begin, end in bounds))


def with_warm_up(sliced: SlicedLog, jobs: int | None = None) -> SlicedLog:
    """The same slices, each preceded by this number of jobs of the log and followed by half as many, as far
    as there are any, which are replayed and not measured: a slice by itself begins with an empty machine and
    ends without new arrivals. By default as many as the slice has, at most MAX_WARM_UP."""
    slices = (
        _slice(sliced.log, x.begin, x.end, min(x.end - x.begin, MAX_WARM_UP) if jobs is None else jobs)
        for x in sliced.slices
    )
    return SlicedLog(sliced.log, tuple(slices))


def _slice(log: JobLog, begin: int, end: int, warm_up_jobs: int = 0) -> Slice:
    before, after = min(warm_up_jobs, begin), min(warm_up_jobs // 2, len(log.jobs) - end)
    part = log.slice(begin - before, end + after)
    here = log.cut.intersection(part.jobs["job"].to_list()) if log.cut else log.cut
    measured = frozenset(log.jobs["job"][begin:end].to_list()) if before or after else log.measured
    # Notes are of the whole log, and would go to every worker.
    return Slice(replace(part, cut=here, notes=(), measured=measured), begin, end, before, after)
