"""Statistics of replications: intervals, quantiles, power laws; and exact ones of numbers in parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, inf
from pathlib import Path
from tempfile import SpooledTemporaryFile

import numpy as np
import polars as pl
from numpy.typing import NDArray

CONFIDENCE = 0.95
MIN_DIFFERENT = 5
"""The fewest values that must differ from the most frequent one, so that the spread of mostly equal values
says something of their mean."""
EVEN = 0.05
"""An interval is nearly symmetrical if its middle is within this share of its half-width from the mean."""
SAME = 1e-9
"""The relative difference below which two values differ by rounding only."""

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
        """The interval in this format: "2.0 ±0.5", "2.0 [1.6, 2.9]" if it is not nearly symmetrical, or the
        mean alone."""
        mean = format(self.mean, f"{sign}{spec}")
        if self.half_width is None:
            return mean
        says_the_same = (abs(self.mean) > self.half_width) == self.excludes_zero
        if says_the_same and abs(self.shift) <= EVEN * self.half_width:
            return f"{mean} {plus_minus}{self.half_width:{spec}}"
        return f"{mean} [{self.low:{sign}{spec}}, {self.high:{sign}{spec}}]"

    def as_dict(self) -> dict[str, float | None]:
        """A JSON object: the limits are None where there is no interval."""
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
    return n > 1 and (different >= MIN_DIFFERENT or 2 * different >= n)


def differences(values: Sample, others: Sample) -> Sample:
    """Paired differences; 0 where both are equal but for rounding."""
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


Numbers = NDArray[np.float64]

IN_MEMORY = 2**22
"""The bytes of numbers that are kept in memory; more are kept in a file."""
MAX_SORTED = 2**20
"""The most numbers of which a quantile is found in memory."""

_DIGIT = 16
"""The bits by which the numbers that may have a rank are divided at a time."""
_MANTISSA, _HALF = 53, 27
"""Bits of a mantissa and of its lower half, so that sums of 2**26 halves are exact, too."""
_UNIT = 1126
"""Every number is a multiple of 2 ** -_UNIT."""


class ExactSum:
    """The sum of numbers, and their mean, each rounded once."""

    def __init__(self) -> None:
        self.n = 0
        self._units = 0
        self._beyond = 0.0
        """The sum of infinite numbers and NaNs."""

    def add(self, values: Numbers) -> None:
        """Add at most 2**26 values."""
        if not len(values):
            return
        self.n += len(values)
        is_finite = np.isfinite(values)
        if not is_finite.all():
            self._beyond += float(values[~is_finite].sum())
            values = np.where(is_finite, values, 0.0)
        mantissas, exponents = np.frexp(values)
        whole = (mantissas * 2.0**_MANTISSA).astype(np.int64)
        least = int(exponents.min())
        exponents -= least
        for half, begins in ((whole & (2**_HALF - 1), 0), (whole >> _HALF, _HALF)):
            sums = np.bincount(exponents, weights=half)
            for place in np.flatnonzero(sums).tolist():
                self._units += int(sums[place]) << (place + least + begins - _MANTISSA + _UNIT)

    @property
    def sum(self) -> float:
        return self._units / (1 << _UNIT) + self._beyond

    @property
    def mean(self) -> float:
        return self._units / (self.n << _UNIT) + self._beyond


class ExactSummary:
    """Mean, quantiles and maximum of numbers. Large amounts are kept in a file without a name in `folder`."""

    def __init__(self, folder: Path | None = None) -> None:
        self.sum = ExactSum()
        where = None if folder is None else str(folder)
        self._kept = SpooledTemporaryFile(IN_MEMORY, dir=where)  # noqa: SIM115 (it lives as long as this)
        self.max = -inf

    def add(self, values: Numbers) -> None:
        self.sum.add(values)
        self._kept.write(values.tobytes())
        self.max = max(self.max, float(np.fmax.reduce(values, initial=-inf)))

    def quantile(self, share: float) -> float:
        """The quantile by the inverted CDF: the smallest number that a `share` of the numbers do not
        exceed."""
        rank, n = max(ceil(share * self.sum.n) - 1, 0), self.sum.n
        begin, shift = np.uint64(0), 64
        while n > MAX_SORTED and shift > 0:
            shift -= _DIGIT
            counts = np.zeros(2**_DIGIT, np.int64)
            for keys in self._beginning_with(begin, shift + _DIGIT):
                digits = (keys >> np.uint64(shift)) & np.uint64(2**_DIGIT - 1)
                counts += np.bincount(digits.astype(np.int64), minlength=len(counts))
            below = np.cumsum(counts)
            digit = int(np.searchsorted(below, rank, side="right"))
            n = int(counts[digit])
            rank -= int(below[digit]) - n
            begin = (begin << np.uint64(_DIGIT)) | np.uint64(digit)
        if shift == 0:
            return float(_numbers(np.array([begin]))[0])
        keys = np.concatenate(list(self._beginning_with(begin, shift)))
        return float(_numbers(np.partition(keys, rank)[rank : rank + 1])[0])

    def _beginning_with(self, begin: np.uint64, shift: int) -> Iterator[NDArray[np.uint64]]:
        """The keys of the numbers, in parts, that are equal to `begin` without their last `shift` bits."""
        self._kept.seek(0)
        while part := self._kept.read(IN_MEMORY):
            keys = _keys(np.frombuffer(part))
            yield keys if shift == 64 else keys[keys >> np.uint64(shift) == begin]


_SIGN = np.uint64(1 << 63)


def _keys(values: Numbers) -> NDArray[np.uint64]:
    """Bits in the order of the numbers."""
    bits = values.view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _numbers(keys: NDArray[np.uint64]) -> Numbers:
    return np.where(keys & _SIGN, keys ^ _SIGN, ~keys).view(np.float64)
