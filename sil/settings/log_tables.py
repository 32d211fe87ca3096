"""Workloads that were observed, a log or the past of the site, and what experiments take of memory."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Self

from pydantic import model_validator

from sil.workload.settings import Rules
from site_db.files.access import Memory
from site_db.files.toml_file import Count, Positive, Table

BYTES_OF_A_JOB = 3_000
"""Memory for a job of a run, in bytes: its facts, and its rows of the results."""
BYTES_OF_A_RUN = 2_000
"""Memory for a run of an experiment, in bytes: its place among the tasks, and its rows of the results."""


def check_sizes(n_jobs: int | None, replications: int, values: Iterable[int], n_schedulers: int) -> None:
    """Raise InvalidFile for more jobs, or more runs of these jobs, than there may be memory for. `values`
    are the numbers of values of each axis of the grid."""
    if n_jobs is not None:
        Memory(f"{n_jobs:,} jobs in a run").take(BYTES_OF_A_JOB * n_jobs)
    n_points = prod(values)
    n_runs = n_points * replications * n_schedulers
    what = f"{n_runs:,} runs (points x replications x schedulers)"
    Memory(what).take(BYTES_OF_A_RUN * n_runs)


class LogTable(Table):
    """The jobs of a log with their own sizes and run times, at `load` times its load: the times between
    arrivals are divided by it. With `weeks`, every replication draws that many weeks of the log, with
    replacement, of which the times are divided then; without, all of it is one replication. `time_zone` is
    that of local times in accounting. In a `closed_loop`, jobs are submitted after the ends of those that
    they name as preceding ones (SWF)."""

    file: str
    time_zone: str | None = None
    closed_loop: bool = False
    load: Positive = 1.0
    weeks: Count | None = None

    @property
    def rules(self) -> Rules:
        return Rules(time_zone=self.time_zone, closed_loop=self.closed_loop)

    @model_validator(mode="after")
    def _has_whole_loops(self) -> Self:
        if self.closed_loop and self.weeks is not None:
            raise ValueError(
                "a closed loop connects jobs beyond the weeks that are drawn; leave out log.closed_loop or "
                "log.weeks"
            )
        return self


class HistoryTable(Table):
    """The past jobs of the site, of the last `days` or of all time, at `load` times their rate.

    `jobs`: that many arrive in each replication at random, by the shares of job classes, queues and users.
    `weeks`: every replication draws that many weeks with all jobs as they were, with replacement; then the
    times between arrivals are divided by `load`. Without either, all jobs as they were are one replication.
    """

    jobs: Count | None = None
    weeks: Count | None = None
    load: Positive = 1.0
    days: Positive | None = None

    @model_validator(mode="after")
    def _draws_jobs_or_weeks(self) -> HistoryTable:
        if self.jobs is not None and self.weeks is not None:
            raise ValueError("a replication draws either jobs or weeks of a history, and this one both")
        return self
