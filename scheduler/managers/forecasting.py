"""Turnaround predictions and promises whenever jobs arrive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from scheduler.managers.time_shared_allocation import TimeSharedAllocation
from scheduler.model import Job, JobId
from scheduler.time_shared.prediction.forecast import Forecast, Predictor
from scheduler.time_shared.prediction.promises import PromisesByForecast


@dataclass(frozen=True, slots=True)
class Prediction:
    """A forecast by a named predictor, of one of `jobs_there` unfinished jobs."""

    made_s: float
    predictor: str
    forecast: Forecast
    jobs_there: int


class Notes(Protocol):
    """Receives predictions and promises."""

    def predicted(self, prediction: Prediction) -> None: ...

    def promised(self, job: Job, by_s: float) -> None:
        """A job is promised to end by then."""
        ...


class Forecasting:
    """After a round with new jobs, every predictor forecasts all unfinished jobs.

    A new job that requests a turnaround limit is promised it, or not.
    """

    def __init__(
        self,
        nodes: TimeSharedAllocation,
        predictors: Mapping[str, Predictor],
        notes: Notes,
        promises: PromisesByForecast | None = None,
    ) -> None:
        self._nodes = nodes
        self._predictors = predictors
        self._notes = notes
        self._promises = promises

    def arrived(self, jobs: Mapping[JobId, Job], now_s: float) -> None:
        view = self._nodes.view()
        for name, predictor in self._predictors.items():
            forecasts = predictor.predict(now_s, view)
            for forecast in forecasts:
                self._notes.predicted(Prediction(now_s, name, forecast, len(forecasts)))
            if self._promises is not None and name == self._promises.predictor:
                self._promise(forecasts, jobs, now_s, self._promises)

    def _promise(
        self, forecasts: Iterable[Forecast], new: Mapping[JobId, Job], now_s: float, rule: PromisesByForecast
    ) -> None:
        for forecast in forecasts:
            job = new.get(forecast.job)
            if job is None or job.limit_s is None:
                continue
            by_s = job.arrival_s + job.limit_s
            if rule.keeps(forecast, now_s, by_s):
                self._nodes.promise(job.id, by_s)
                self._notes.promised(job, by_s)
