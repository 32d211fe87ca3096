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


@dataclass(frozen=True)
class Forecasting:
    """After a round with new jobs, every predictor forecasts all unfinished jobs.

    A new job that requests a turnaround limit is promised it, or not.
    """

    nodes: TimeSharedAllocation
    predictors: Mapping[str, Predictor]
    notes: Notes
    promises: PromisesByForecast | None = None

    def arrived(self, jobs: Mapping[JobId, Job], now_s: float) -> None:
        view = self.nodes.view()
        for name, predictor in self.predictors.items():
            forecasts = predictor.predict(now_s, view)
            for forecast in forecasts:
                self.notes.predicted(Prediction(now_s, name, forecast, len(forecasts)))
            if self.promises is not None and name == self.promises.predictor:
                self._promise(forecasts, jobs, now_s, self.promises)

    def _promise(
        self, forecasts: Iterable[Forecast], new: Mapping[JobId, Job], now_s: float, rule: PromisesByForecast
    ) -> None:
        for forecast in forecasts:
            job = new.get(forecast.job)
            if job is None or job.limit_s is None:
                continue
            by_s = job.arrival_s + job.limit_s
            if rule.keeps(forecast, now_s, by_s):
                self.nodes.promise(job.id, by_s)
                self.notes.promised(job, by_s)
