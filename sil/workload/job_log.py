"""Rigid jobs as a log tells of them, and what can be cut out of it or done to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import polars as pl

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "job": pl.Int64,
    "submit_s": pl.Float64,
    "run_s": pl.Float64,
    "processors": pl.Int64,
    "estimate_s": pl.Float64,
    "user": pl.Int64,
}
"""One row per job, in order of submission, then of job number: how long it runs, on how many processors, and
how long its user said that it would. An unknown user is -1."""

MOST_PROCESSORS = 100_000_000


class BadLog(ValueError):
    """A log cannot be used. The message is one sentence for the user."""


@dataclass(frozen=True)
class JobLog:
    """The jobs of a log (columns of SCHEMA), and the machine on which they ran.

    `notes` are what was repaired as it was read, a sentence each.
    """

    name: str
    jobs: pl.DataFrame
    processors: int
    header: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def span_s(self) -> float:
        """From the first submission to the last."""
        submit_s = self.jobs["submit_s"]
        return float(submit_s[-1]) - float(submit_s[0])

    @property
    def load(self) -> float | None:
        """Processor-seconds of all jobs, as a share of those that there are from the first submission to the
        last; None where all come at once."""
        work = float((self.jobs["processors"] * self.jobs["run_s"]).sum())
        return work / (self.processors * self.span_s) if self.span_s else None

    def slice(self, first: int | None, last: int | None) -> JobLog:
        """Jobs by their place in the order of submission, from 0 on, without the last; as Python slices.

        Raises BadLog where none is left.
        """
        return self._with(self.jobs[first:last], f"jobs {'' if first is None else first}:{last or ''}")

    def between(self, begin: datetime | None, end: datetime | None) -> JobLog:
        """Jobs submitted from `begin` on, and before `end`. A time without a zone is UTC.

        Raises BadLog where none is left, or the log does not tell when it begins (UnixStartTime).
        """
        start = self.header.get("unixstarttime", "").split()
        if not start or not start[0].isdecimal():
            raise BadLog(f"{self.name}: jobs cannot be chosen by date: the log has no header UnixStartTime")
        origin_s, chosen = float(start[0]), self.jobs
        for moment, keep in ((begin, pl.Expr.ge), (end, pl.Expr.lt)):
            if moment is not None:
                zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
                chosen = chosen.filter(keep(pl.col("submit_s"), pl.lit(zoned.timestamp() - origin_s)))
        return self._with(chosen, f"jobs between {begin or 'the beginning'} and {end or 'the end'}")

    def with_load(self, factor: float) -> JobLog:
        """The same jobs under `factor` times the load: the times between arrivals are divided by it, and the
        arrivals rounded to whole seconds. Raises BadLog for a factor that is not above 0."""
        if not 0 < factor < float("inf"):
            raise BadLog(f"the load cannot be multiplied by {factor:g}; a factor above 0 is needed")
        first_s = float(self.jobs["submit_s"][0])
        scaled = first_s + ((pl.col("submit_s") - first_s) / factor).round()
        return replace(self, jobs=self.jobs.with_columns(submit_s=scaled).sort("submit_s", "job"))

    def _with(self, jobs: pl.DataFrame, what: str) -> JobLog:
        if not len(jobs):
            raise BadLog(f"{self.name}: there are no {what}; the log has {len(self.jobs):,} jobs")
        return replace(self, jobs=jobs)
