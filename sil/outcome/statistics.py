"""Statistics over replications: intervals, percentage changes, quantiles, and power laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

CONFIDENCE = 0.95

Sample = NDArray[np.float64]
"""One number per replication."""


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

    def scaled(self, factor: float) -> Interval:
        width = None if self.half_width is None else self.half_width * factor
        return Interval(self.mean * factor, width)

    @property
    def excludes_zero(self) -> bool:
        return self.half_width is not None and abs(self.mean) > self.half_width


def interval(values: Sample, confidence: float = CONFIDENCE) -> Interval:
    """Mean of independent values and its Student t confidence interval."""
    mean = float(np.mean(values))
    return Interval(mean, half_width(values, (1 + confidence) / 2) if len(values) > 1 else None)


def half_width(values: Sample, probability: float) -> float:
    """Of the confidence interval of the mean, by the quantile of Student's t at this probability."""
    n = len(values)
    spread = float(np.std(values, ddof=1)) / np.sqrt(n)
    return _student_t(n - 1, probability) * float(spread)


def _student_t(degrees_of_freedom: int, probability: float) -> float:
    """The quantile of Student's t distribution."""
    from scipy.special import (
        stdtrit,
    )  # takes long to import, and replays do without; scipy.stats takes longer

    return float(stdtrit(degrees_of_freedom, probability))


def percent_changes(differences: Sample, baseline: Sample) -> Sample:
    """Paired differences as percentages of the baseline's mean, one per replication (delta method).

    With d the differences, b the baseline and r = mean(d) / mean(b), the values are
    100 (r + (d - r b) / mean(b)). Their mean is 100 r, so a percentage has the sign of its difference; the
    variance of their mean is the first-order variance of a ratio of means.
    """
    mean = float(np.mean(baseline))
    ratio = float(np.mean(differences)) / mean
    return np.asarray(100.0 * (ratio + (differences - ratio * baseline) / mean), dtype=np.float64)


def quantile(values: pl.Expr, share: float) -> pl.Expr:
    """The quantile by the inverted CDF: the smallest value that a `share` of the values do not exceed."""
    return values.quantile(share, interpolation="equiprobable")


@dataclass(frozen=True)
class PowerLaw:
    """t = coefficient * product of variables to the power of their exponents.

    `spread` is the factor by which values deviate (one standard deviation of the logarithm).
    """

    coefficient: float
    exponents: tuple[Interval, ...]
    spread: float


def fit_power_law(variables: Sequence[NDArray[np.float64]], values: NDArray[np.float64]) -> PowerLaw:
    """The power law of `values` in the variables, all positive, by least squares of the logarithms.

    Raises ValueError for too few values or a constant variable.
    """
    x, y = np.log(np.column_stack(variables)), np.log(values)
    slopes, constant, deviation = least_squares(x, y)
    return PowerLaw(float(np.exp(constant)), tuple(slopes), float(np.exp(deviation)))


def least_squares(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[list[Interval], float, float]:
    """The linear model y = c + x b: slopes b with 95 % intervals, c, and the residual standard deviation.

    `x` is (n, k), `y` (n,). Raises ValueError where the slopes are not determined.
    """
    design = np.column_stack([np.ones(len(x)), x])
    free = len(y) - design.shape[1]
    if free < 1 or np.linalg.matrix_rank(design) < design.shape[1]:
        raise ValueError(f"{len(y)} values do not determine {design.shape[1] - 1} slopes")
    found, *_ = np.linalg.lstsq(design, y, rcond=None)
    variance = float(((y - design @ found) ** 2).sum()) / free
    spread = np.sqrt(variance * np.diag(np.linalg.inv(design.T @ design)))
    t = _student_t(free, (1 + CONFIDENCE) / 2)
    slopes = [Interval(float(b), t * float(s)) for b, s in zip(found[1:], spread[1:], strict=True)]
    return slopes, float(found[0]), float(np.sqrt(variance))
