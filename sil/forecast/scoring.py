"""Forecasts held against what happened: coverage of intervals, and errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scheduler import UserError
from scheduler.core.arrays import Floats, Floats2, Ints
from scheduler.free_nodes.runtime_estimates import LONGEST_S
from scheduler.messages import counted
from sil.forecast.forward import KnownReplay, Present
from sil.forecast.waits import predicted_waits

Levels = tuple[float, float]
LEVELS: Levels = (0.1, 0.9)
"""The quantiles between which 80 % of jobs should start, and end."""
FEWEST = 30
"""The fewest forecasts that calibrate."""


class ForecastTime(NamedTuple):
    """A forecast time, and its 80 % interval, whose ends are times of samples."""

    low_s: float
    median_s: float
    high_s: float

    @classmethod
    def of(cls, times_s: Floats, levels: Levels = LEVELS) -> ForecastTime:
        """Of equally likely times."""
        low_s = float(np.quantile(times_s, levels[0], method="lower"))
        high_s = float(np.quantile(times_s, levels[1], method="higher"))
        return cls(low_s, float(np.median(times_s)), high_s)


class Calibration:
    """The quantiles between which 80 % of times were that are known by now, instead of LEVELS: a truth is
    outside an interval if all of its equally likely times are. Source: split conformal prediction by
    quantiles (Romano, Patterson and Candes, "Conformalized Quantile Regression", NeurIPS 2019)."""

    def __init__(self) -> None:
        self._known_s, self._below, self._up_to = list[float](), list[float](), list[float]()

    def add(self, times_s: Floats, truth_s: float, known_s: float) -> None:
        """A forecast that came true, which was known then."""
        self._known_s.append(known_s)
        self._below.append(float(np.mean(times_s < truth_s)))
        self._up_to.append(float(np.mean(times_s <= truth_s)))

    def levels(self, now_s: float) -> Levels:
        """LEVELS themselves while fewer than FEWEST truths are known."""
        known = np.array(self._known_s) <= now_s
        if np.count_nonzero(known) < FEWEST:
            return LEVELS
        low = np.quantile(np.array(self._up_to)[known], LEVELS[0])
        return float(low), float(np.quantile(np.array(self._below)[known], LEVELS[1]))


class Score(NamedTuple):
    """Of a method, for the start or the end of jobs: the mean absolute error; of intervals, the share that
    has the truth, and the mean width."""

    method: str
    of: str
    error_s: float
    coverage: float | None = None
    width_s: float | None = None


@dataclass(frozen=True)
class Scored:
    """Forecasts of jobs when each was submitted, held against the starts and ends of the replay.

    The `n_certain` other jobs started when they were submitted, which forecasts know.
    """

    scores: Sequence[Score]
    n_jobs: int
    n_certain: int


def held_out(replayed: KnownReplay, n: int) -> Ints:
    """Jobs that waited, evenly spaced over the last three quarters of a log: nothing that a forecast knows
    comes from their future. Raises UserError if too few did."""
    waited = np.flatnonzero(replayed.start_s > replayed.submit_s)
    waited = waited[waited >= len(replayed.submit_s) // 4]
    if len(waited) < n:
        raise UserError(
            f"{replayed.replay.log.name}: {counted(len(waited), 'job')} of its last three quarters waited; "
            f"expected {n:,} to score forecasts"
        )
    return waited[np.linspace(0, len(waited) - 1, n).astype(np.int64)]


def score(
    replayed: KnownReplay, n_jobs: int, samples_of_each: int, seed: int, progress: Callable[[int], None]
) -> Scored:
    """Score forecasts of `n_jobs` jobs, each calibrated by those before it. Raises UserError."""
    jobs, planned_s = held_out(replayed, n_jobs), list[float]()
    true_s, end_s, found = replayed.start_s[jobs], replayed.end_s[jobs], list[Floats2]()
    calibrations = Calibration(), Calibration()
    for n, job in enumerate(jobs.tolist()):
        present = Present.of(replayed, float(replayed.submit_s[job]), job + 1)
        samples, x = present.sampled(samples_of_each, seed), int(np.flatnonzero(present.open == job)[0])
        start_s = samples.start_s[:, x]
        made = list[ForecastTime]()
        for calibration, times_s, truth_s in zip(
            calibrations, (start_s, start_s + samples.run_s[:, x]), (true_s[n], end_s[n]), strict=True
        ):
            made += ForecastTime.of(times_s), ForecastTime.of(times_s, calibration.levels(present.now_s))
            calibration.add(times_s, float(truth_s), float(truth_s))
        found.append(np.array(made))
        planned_s.append(float(present.planned()[x]))
        progress(n + 1)
    of_start, start_calibrated, of_end, end_calibrated = np.array(found).transpose(1, 0, 2)
    limit_s = replayed.replay.log.jobs["estimate_s"].fill_null(LONGEST_S).to_numpy()[jobs]
    plan_s = np.array(planned_s)[:, None]
    scores = [
        _score("forecast", "start", of_start, true_s),
        _score("calibrated", "start", start_calibrated, true_s),
        _score("past waits", "start", _by_past_waits(replayed, jobs), true_s),
        _score("plan", "start", plan_s, true_s),
        _score("forecast", "end", of_end, end_s),
        _score("calibrated", "end", end_calibrated, end_s),
        _score("plan", "end", plan_s + limit_s[:, None], end_s),
    ]
    return Scored(scores, len(jobs), int((replayed.start_s == replayed.submit_s).sum()))


def _by_past_waits(replayed: KnownReplay, jobs: Ints) -> Floats2:
    """Predictions from the waits of jobs that waited, as all have that are scored."""
    waited = np.flatnonzero(replayed.start_s > replayed.submit_s)
    submit_s, sizes = replayed.submit_s, replayed.replay.log.jobs["processors"].to_numpy()
    found = predicted_waits(submit_s[waited], replayed.start_s[waited], sizes[waited], LEVELS)
    of_job = dict(zip(waited.tolist(), found, strict=True))
    return np.array([of_job[job] for job in jobs.tolist()]) + submit_s[jobs][:, None]


def _score(method: str, of: str, forecasts: Floats2, truth_s: Floats) -> Score:
    """Of forecasts with the columns of ForecastTime, or of times alone."""
    middle_s = forecasts[:, forecasts.shape[1] // 2]
    error_s = float(np.abs(middle_s - truth_s).mean())
    if forecasts.shape[1] == 1:
        return Score(method, of, error_s)
    low_s, high_s = forecasts[:, 0], forecasts[:, -1]
    within = (low_s <= truth_s) & (truth_s <= high_s)
    return Score(method, of, error_s, float(within.mean()), float((high_s - low_s).mean()))
