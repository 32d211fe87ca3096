"""How wrong predictions were, and what follows for the next: intervals, and a correction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from scheduler.model import JobId
from scheduler.time_shared.prediction.forecast import Forecast, Predictor
from scheduler.time_shared.problem import SharedNodes

FEWEST = 20
"""So many errors must be known to say something of the next."""
COVERAGE = 0.8


class Circumstances(NamedTuple):
    """What a prediction is alike in with others: the kind of job, whether it waits, and the load.

    Jobs that require the same are of one kind. The load is the number of jobs that are not done, in steps
    that double.
    """

    exe_s: float
    tasks: int
    waits: bool
    load: int

    @classmethod
    def of(cls, exe_s: float, tasks: int, waits: bool, jobs_there: int) -> Circumstances:
        """`jobs_there` are not done."""
        return cls(exe_s, tasks, waits, jobs_there.bit_length())


ALIKE = (
    "the same kind of job, in the queue as this one is, with about as many jobs there",
    "the same kind of job, in the queue as this one is",
    "all jobs that waited, or ran, as this one does",
)
"""What the errors that speak for a prediction have in common, from the closest to the broadest."""


class Basis(NamedTuple):
    """How many errors speak for a prediction, and of what."""

    n_errors: int
    alike: str


@dataclass(frozen=True, slots=True)
class Error:
    """How wrong a prediction was: seconds from then to the real end, by those to the predicted one."""

    circumstances: Circumstances
    ratio: float


class ErrorHistory:
    """The errors of one predictor under one policy. Circumstances of which little is known stand back.

    What speaks for a prediction are the errors under the same circumstances, else those of the same kind of
    job, else those of jobs that wait, or run, as it does; each only if at least FEWEST are known.
    """

    def __init__(self, errors: Iterable[Error]) -> None:
        ratios: dict[tuple[object, ...], list[float]] = defaultdict(list)
        for error in errors:
            for key in _keys(error.circumstances):
                ratios[key].append(error.ratio)
        self._ratios = {key: np.sort(values) for key, values in ratios.items() if len(values) >= FEWEST}

    def basis(self, circumstances: Circumstances) -> Basis | None:
        """What speaks for a prediction under these circumstances, or None where nothing does."""
        for key, alike in zip(_keys(circumstances), ALIKE, strict=True):
            if key in self._ratios:
                return Basis(len(self._ratios[key]), alike)
        return None

    def quantiles(self, circumstances: Circumstances, *shares: float) -> tuple[float, ...] | None:
        """Quantiles of real / predicted, or None where nothing is known."""
        for key in _keys(circumstances):
            if key in self._ratios:
                return tuple(np.quantile(self._ratios[key], shares).tolist())
        return None


class WithInterval:
    """A predictor whose forecasts come with the interval in which 80 % of the like have ended so far."""

    def __init__(self, predictor: Predictor, errors: ErrorHistory) -> None:
        self._predictor = predictor
        self._errors = errors

    def predict(self, now_s: float, shared: SharedNodes) -> list[Forecast]:
        tails = (1.0 - COVERAGE) / 2
        made = []
        for forecast, circumstances in seen_by(self._predictor, now_s, shared):
            bounds = self._errors.quantiles(circumstances, tails, 1.0 - tails)
            if bounds is not None:
                low_s, high_s = (now_s + ratio * (forecast.end_s - now_s) for ratio in bounds)
                forecast = replace(forecast, low_s=low_s, high_s=high_s)
            made.append(forecast)
        return made


class Hybrid:
    """An analytic estimate corrected by the median of its errors in the past. Its interval, of the same
    errors, stays as it is; whoever waits starts so much later, or earlier, too.

    Source: future work of Hanzich et al. 2006.
    """

    def __init__(self, predictor: Predictor, errors: ErrorHistory) -> None:
        self._predictor = predictor
        self._errors = errors

    def predict(self, now_s: float, shared: SharedNodes) -> list[Forecast]:
        made = []
        for forecast, circumstances in seen_by(self._predictor, now_s, shared):
            median = self._errors.quantiles(circumstances, 0.5)
            if median is not None:
                end_s, start_s = now_s + median[0] * (forecast.end_s - now_s), forecast.start_s
                if start_s is not None:
                    start_s = now_s + median[0] * (start_s - now_s)
                forecast = replace(forecast, start_s=start_s, end_s=end_s)
            made.append(forecast)
        return made


def seen_by(predictor: Predictor, now_s: float, shared: SharedNodes) -> list[tuple[Forecast, Circumstances]]:
    """Forecasts, and under what circumstances they are made."""
    alike = circumstances_of(shared)
    return [(forecast, alike[forecast.job]) for forecast in predictor.predict(now_s, shared)]


def circumstances_of(shared: SharedNodes) -> dict[JobId, Circumstances]:
    """Of each job that runs or waits."""
    there, jobs = len(shared.running) + len(shared.waiting), shared.jobs
    return {
        JobId(int(jobs.id[row])): Circumstances.of(float(jobs.exe_s[row]), int(jobs.tasks[row]), waits, there)
        for rows, waits in ((shared.running, False), (shared.waiting, True))
        for row in rows.tolist()
    }


def _keys(circumstances: Circumstances) -> tuple[tuple[object, ...], ...]:
    """From the closest to the broadest."""
    return tuple(circumstances), tuple(circumstances[:3]), (circumstances.waits,)
