"""Means over replications with their uncertainty, and paired differences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # scipy.stats takes ten times as long to import

CONFIDENCE = 0.95

Sample = NDArray[np.float64]
"""One figure per replication."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the half-width of its confidence interval; None with fewer than two replications."""

    mean: float
    half_width: float | None

    @property
    def low(self) -> float:
        return self.mean - (self.half_width or 0.0)

    @property
    def high(self) -> float:
        return self.mean + (self.half_width or 0.0)

    @property
    def excludes_zero(self) -> bool:
        return self.half_width is not None and abs(self.mean) > self.half_width


def interval(values: Sample, confidence: float = CONFIDENCE) -> Interval:
    """Mean of independent values and its Student t confidence interval."""
    n = len(values)
    mean = float(np.mean(values))
    if n < 2:
        return Interval(mean, None)
    spread = float(np.std(values, ddof=1)) / np.sqrt(n)
    return Interval(mean, float(stdtrit(n - 1, (1 + confidence) / 2)) * float(spread))


def paired_difference(values: Sample, baseline: Sample) -> Interval:
    """Mean of value - baseline over replications in which both met the same jobs and the same luck."""
    return interval(values - baseline)


def paired_change_percent(values: Sample, baseline: Sample) -> Interval:
    """Mean over replications of the change in percent of the baseline."""
    return interval(100.0 * (values - baseline) / baseline)
