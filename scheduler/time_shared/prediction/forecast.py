"""What a predictor says, and of what."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Protocol

from scheduler.model import JobId
from scheduler.time_shared.problem import SharedNodes


@dataclass(frozen=True, slots=True)
class Forecast:
    """When a job is believed to start and to end; a job that runs has no start. Infinite = never.

    It will probably end from `low_s` to `high_s`, where that is known.
    """

    job: JobId
    start_s: float | None
    end_s: float
    low_s: float | None = None
    high_s: float | None = None

    @property
    def is_never(self) -> bool:
        """It could not start even when all others had ended, as far as is known now."""
        return self.end_s == inf


class Predictor(Protocol):
    def predict(self, now_s: float, shared: SharedNodes) -> list[Forecast]:
        """A forecast for each job that runs or waits, running ones first. The state is read, not changed."""
        ...
