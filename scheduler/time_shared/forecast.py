"""Forecasts, the errors of past ones, and what follows from these: intervals and a correction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler.model import JobId

if TYPE_CHECKING:
    from scheduler.time_shared.problem import SharedNodes  # loads compiled functions


MIN_ERRORS = 20
"""Fewest recorded errors from which an interval or a correction is computed."""
COVERAGE = 0.8
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Forecast:
    """Predicted start and end of a job; a running job has no start. Infinite = never.

    `low_s` and `high_s` bound the 80 % interval of its end, if one is available.
    """

    job: JobId
    start_s: float | None
    end_s: float
    low_s: float | None = None
    high_s: float | None = None


class Predictor(Protocol):
    def predict(self, now_s: float, shared: SharedNodes) -> list[Forecast]:
        """A forecast for each job, running ones first. Must not change the state."""


class Circumstances(NamedTuple):
    """What makes predictions comparable: the kind of job, whether it waits, and the load.

    Jobs with equal requirements are of one kind. The load is the number of unfinished jobs in powers of
    two."""

    exe_s: float
    tasks: int
    waits: bool
    load: int

    @classmethod
    def of(cls, exe_s: float, tasks: int, waits: bool, jobs_there: int) -> Circumstances:
        """`jobs_there` is the number of unfinished jobs."""
        return cls(exe_s, tasks, waits, jobs_there.bit_length())


ALIKE = (
    "the same kind of job, in the queue as this one is, with about as many jobs there",
    "the same kind of job, in the queue as this one is",
    "all jobs that waited, or ran, as this one does",
)
"""What the errors used for a prediction have in common, from the most specific to the most general."""


class Basis(NamedTuple):
    """The number of errors used for a prediction, and what they have in common."""

    n_errors: int
    alike: str


@dataclass(frozen=True, slots=True)
class Error:
    """A past prediction: seconds from it to the actual end, divided by seconds to the predicted end."""

    circumstances: Circumstances
    ratio: float


class ErrorHistory:
    """The errors of one predictor under one policy.

    A prediction uses the errors under the same circumstances; if there are fewer than MIN_ERRORS, those of
    the same kind of job in the same state; else those of all jobs in the same state (waiting or running).
    """

    def __init__(self, errors: Iterable[Error]) -> None:
        ratios: dict[tuple[object, ...], list[float]] = defaultdict(list)
        for error in errors:
            for key in _keys(error.circumstances):
                ratios[key].append(error.ratio)
        self._ratios = {key: np.sort(values) for key, values in ratios.items() if len(values) >= MIN_ERRORS}

    def basis(self, circumstances: Circumstances) -> Basis | None:
        """The errors used for a prediction under these circumstances, or None if there are too few."""
        for key, alike in zip(_keys(circumstances), ALIKE, strict=True):
            if key in self._ratios:
                return Basis(len(self._ratios[key]), alike)
        return None

    def ratios(self, circumstances: Circumstances) -> NDArray[np.float64] | None:
        """Actual / predicted, in ascending order, or None if there are too few errors."""
        return next((self._ratios[key] for key in _keys(circumstances) if key in self._ratios), None)


def prediction_limits(ascending: Sequence[float] | NDArray[np.float64]) -> tuple[float, float] | None:
    """The k-th value and the k-th from the end, between which the next value of the same kind is with
    probability COVERAGE or a little more, for k = floor((n + 1) (1 - COVERAGE) / 2); None with fewer than
    nine. Quantiles of the n values themselves cover less: 73 % of 20. Source: S. S. Wilks, "Determination of
    sample sizes for setting tolerance limits", Annals of Mathematical Statistics 12 (1941)."""
    n = len(ascending)
    k = int((n + 1) * (1.0 - COVERAGE) / 2 + ROUNDING)
    return (float(ascending[k - 1]), float(ascending[n - k])) if k else None


class _FromErrors(ABC):
    """A predictor whose forecasts are changed by past ratios, where there are enough."""

    def __init__(self, predictor: Predictor, errors: ErrorHistory) -> None:
        self._predictor = predictor
        self._errors = errors

    def predict(self, now_s: float, shared: SharedNodes) -> list[Forecast]:
        made = []
        for forecast, circumstances in seen_by(self._predictor, now_s, shared):
            ratios = self._errors.ratios(circumstances)
            made.append(forecast if ratios is None else self.change(forecast, now_s, ratios))
        return made

    @abstractmethod
    def change(self, forecast: Forecast, now_s: float, ratios: NDArray[np.float64]) -> Forecast: ...


class WithInterval(_FromErrors):
    """Adds to forecasts an interval in which 80 % of jobs end whose errors are like those so far."""

    def change(self, forecast: Forecast, now_s: float, ratios: NDArray[np.float64]) -> Forecast:
        limits = prediction_limits(ratios)
        if limits is None:
            return forecast
        low_s, high_s = (now_s + ratio * (forecast.end_s - now_s) for ratio in limits)
        return replace(forecast, low_s=low_s, high_s=high_s)


class Hybrid(_FromErrors):
    """Corrects forecasts by the median of past errors; the start of a waiting job moves in proportion.
    Intervals are computed from the same errors and stay as they are.

    Source: future work of Hanzich et al. 2006.
    """

    def change(self, forecast: Forecast, now_s: float, ratios: NDArray[np.float64]) -> Forecast:
        median = float(np.quantile(ratios, 0.5))
        start_s = None if forecast.start_s is None else now_s + median * (forecast.start_s - now_s)
        return replace(forecast, start_s=start_s, end_s=now_s + median * (forecast.end_s - now_s))


def seen_by(predictor: Predictor, now_s: float, shared: SharedNodes) -> list[tuple[Forecast, Circumstances]]:
    """Forecasts with their circumstances."""
    alike = circumstances_of(shared)
    return [(forecast, alike[forecast.job]) for forecast in predictor.predict(now_s, shared)]


def circumstances_of(shared: SharedNodes) -> dict[JobId, Circumstances]:
    """The circumstances of each running and waiting job."""
    there, jobs = len(shared.running) + len(shared.waiting), shared.jobs
    return {
        JobId(int(jobs.id[row])): Circumstances.of(float(jobs.exe_s[row]), int(jobs.tasks[row]), waits, there)
        for rows, waits in ((shared.running, False), (shared.waiting, True))
        for row in rows.tolist()
    }


def _keys(circumstances: Circumstances) -> tuple[tuple[object, ...], ...]:
    return tuple(circumstances), tuple(circumstances[:3]), (circumstances.waits,)
