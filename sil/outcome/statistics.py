"""Statistics over replications: intervals, percentage changes, quantiles, and power laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import polars as pl
from numpy.typing import NDArray

CONFIDENCE = 0.95
FEWEST_DIFFERENT = 5
"""If most values are equal and fewer than this differ from them, their spread says nothing of their mean."""
EVEN = 0.05
"""An interval is nearly symmetrical if its middle is within this share of its half-width from the mean."""
SAME = 1e-9
"""A difference of less than this share is rounding."""

Sample = NDArray[np.float64]
"""One number per replication."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the half-width of its confidence interval, None where there is none; `shift` is how far the
    middle of the interval is from the mean, if it is not symmetrical."""

    mean: float
    half_width: float | None
    shift: float = 0.0

    @classmethod
    def between(cls, mean: float, low: float, high: float) -> Interval:
        return cls(mean, (high - low) / 2, (low + high) / 2 - mean)

    @property
    def low(self) -> float:
        return self.mean if self.half_width is None else self.mean + self.shift - self.half_width

    @property
    def high(self) -> float:
        return self.mean if self.half_width is None else self.mean + self.shift + self.half_width

    def scaled(self, factor: float) -> Interval:
        width = None if self.half_width is None else self.half_width * abs(factor)
        return Interval(self.mean * factor + 0.0, width, self.shift * factor)  # and no -0.0

    @property
    def excludes_zero(self) -> bool:
        return self.half_width is not None and not self.low <= 0.0 <= self.high

    def text(self, spec: str, sign: str = "", plus_minus: str = "±") -> str:
        """In this format: "2.0 ±0.5", "2.0 [1.6, 2.9]" if it is not nearly symmetrical, or the mean alone."""
        mean = format(self.mean, f"{sign}{spec}")
        if self.half_width is None:
            return mean
        says_the_same = (abs(self.mean) > self.half_width) == self.excludes_zero
        if says_the_same and abs(self.shift) <= EVEN * self.half_width:
            return f"{mean} {plus_minus}{self.half_width:{spec}}"
        return f"{mean} [{self.low:{sign}{spec}}, {self.high:{sign}{spec}}]"

    def as_dict(self) -> dict[str, float | None]:
        """For JSON: the limits are None where there is no interval."""
        low, high = (None, None) if self.half_width is None else (self.low, self.high)
        return {"mean": self.mean, "half_width": self.half_width, "low": low, "high": high}


def interval(values: Sample, confidence: float = CONFIDENCE) -> Interval:
    """Mean of independent values and its Student t confidence interval; none for values without a spread."""
    mean = float(np.mean(values))
    if not has_spread(values):
        return Interval(mean, None)
    spread = float(np.std(values, ddof=1)) / np.sqrt(len(values))
    return Interval(mean, student_t(len(values) - 1, (1 + confidence) / 2) * float(spread))


def has_spread(values: Sample) -> bool:
    """Whether the spread of values says something about their mean: an effect in a share p of replications
    remains unseen in n of them with probability (1 - p)^n, whatever the variance of what was seen."""
    n, different = len(values), n_different(values)
    return n > 1 and (different >= FEWEST_DIFFERENT or 2 * different >= n)


def differences(values: Sample, others: Sample) -> Sample:
    """Paired; 0 where both are equal but for rounding."""
    equal = np.isclose(values, others, rtol=SAME, atol=0.0)
    return np.where(equal, 0.0, values - others)


def n_different(values: Sample) -> int:
    """How many values are not the most frequent one."""
    scale = float(np.max(np.abs(values), initial=0.0)) or 1.0
    counts = np.unique(np.round(values / (scale * SAME)), return_counts=True)[1]
    return len(values) - int(np.max(counts, initial=0))


@cache
def student_t(degrees_of_freedom: int, probability: float) -> float:
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
    t = student_t(free, (1 + CONFIDENCE) / 2)
    slopes = [Interval(float(b), t * float(s)) for b, s in zip(found[1:], spread[1:], strict=True)]
    return slopes, float(found[0]), float(np.sqrt(variance))
