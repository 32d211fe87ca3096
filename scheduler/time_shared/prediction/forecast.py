"""Forecasts, and the port of predictors."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Protocol

from scheduler.model import JobId
from scheduler.time_shared.problem import SharedNodes


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

    @property
    def is_never(self) -> bool:
        """Whether the job could not start even after all others had ended."""
        return self.end_s == inf


class Predictor(Protocol):
    def predict(self, now_s: float, shared: SharedNodes) -> list[Forecast]:
        """A forecast for each job, running ones first. Must not change the state."""
        ...
