"""Forecasts held against what happened: coverage of intervals, and errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, inf, isfinite
from typing import NamedTuple

import numpy as np

from scheduler import UserError
from scheduler.core.arrays import Floats, Ints
from scheduler.free_nodes.runtime_estimates import LONGEST_S
from scheduler.messages import counted
from sil.forecast.forward import KnownJobs, Present

Levels = tuple[float, float]
LEVELS: Levels = (0.1, 0.9)
"""The quantiles between which 80 % of jobs should start, and end."""


class ForecastTime(NamedTuple):
    """A forecast time, and its 80 % interval, whose ends are times of samples; infinite if it never comes."""

    low_s: float
    median_s: float
    high_s: float

    def as_dict(self) -> dict[str, float | None]:
        """A JSON object."""
        return {name: x if isfinite(x) else None for name, x in self._asdict().items()}

    @classmethod
    def of(cls, times_s: Floats, levels: Levels = LEVELS) -> ForecastTime:
        """Of equally likely times."""
        in_order, last = np.sort(np.nan_to_num(times_s, nan=inf)), len(times_s) - 1
        low_s, high_s = in_order[floor(last * levels[0])], in_order[ceil(last * levels[1])]
        return cls(float(low_s), float(np.median(in_order)), float(high_s))


class PastForecast(NamedTuple):
    """Of the start or the end (`of`) of a job in a place, when it was submitted: equally likely times, what
    the scheduler planned by the time limits, and when it came."""

    job: int
    of: str
    times_s: Floats
    planned_s: float
    true_s: float


def waited(known: KnownJobs) -> Ints:
    """The jobs that waited and ended: forecasts know the others with certainty."""
    found: Ints = np.flatnonzero((known.start_s > known.submit_s) & np.isfinite(known.end_s))
    return found


def past_forecasts(known: KnownJobs, n: int, samples_of_each: int, seed: int) -> Iterator[PastForecast]:
    """Of the starts and ends of jobs that waited, evenly spaced over the last three quarters of a log:
    nothing that a forecast knows comes from their future. Raises UserError if too few did."""
    jobs, log = waited(known), known.policy.log
    jobs = jobs[jobs >= len(log) // 4]
    if len(jobs) < n:
        raise UserError(
            f"{log.name}: {counted(len(jobs), 'job')} of its last three quarters waited; expected {n:,} to "
            f"score forecasts"
        )
    limit_s = log.jobs["estimate_s"].fill_null(LONGEST_S).to_numpy()
    for job in jobs[np.linspace(0, len(jobs) - 1, n).astype(np.int64)].tolist():
        present = Present.of(known, float(known.submit_s[job]), job + 1)
        samples, x = present.sampled(samples_of_each, seed), int(np.flatnonzero(present.open == job)[0])
        plan_s, true_s = float(present.planned[x]), (float(known.start_s[job]), float(known.end_s[job]))
        yield PastForecast(job, "start", samples.start_s[:, x], plan_s, true_s[0])
        yield PastForecast(job, "end", samples.end_s[:, x], plan_s + float(limit_s[job]), true_s[1])


class ForecastErrors(NamedTuple):
    """The mean absolute error of forecasts; of intervals, the share that has the truth, and the mean
    width."""

    error_s: float
    coverage: float
    width_s: float

    @classmethod
    def of(cls, forecasts: Sequence[ForecastTime], true_s: Sequence[float]) -> ForecastErrors:
        low_s, middle_s, high_s = np.array(forecasts).T
        within, errors_s = (low_s <= true_s) & (true_s <= high_s), np.abs(middle_s - true_s)
        return cls(float(errors_s.mean()), float(within.mean()), float((high_s - low_s).mean()))
