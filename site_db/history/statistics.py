"""Statistics of run times that can be merged: count, mean, variance, the line over a size parameter, and
quantiles in little space: counts per bin of equal *relative* width.

These are the sketch of Masson, Rim and Lee (DDSketch, VLDB 2019): every quantile is within ACCURACY of the
exact one, and merging is adding counts. So a sketch depends on the values alone, not on their batches or
order. There are at most 116 bins for each factor of ten between the shortest and the longest time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from math import ceil, fsum, log, sqrt

import numpy as np

ACCURACY = 0.01
"""The greatest relative error of a quantile."""

_GAMMA = (1 + ACCURACY) / (1 - ACCURACY)
_BINS_PER_E_FOLD = 1 / log(_GAMMA)

_STORED = np.dtype("<i4")


class QuantileSketch:
    """The number of values in each bin; bin b has the values in (gamma^(b-1), gamma^b]."""

    __slots__ = ("_counts",)

    def __init__(self, values: Iterable[float] = ()) -> None:
        self._counts = Counter[int]()
        self.add(values)

    @classmethod
    def from_bytes(cls, data: bytes) -> QuantileSketch:
        """The inverse of `to_bytes`."""
        bins, counts = np.frombuffer(data, _STORED).reshape(2, -1).tolist()
        sketch = cls()
        sketch._counts.update(dict(zip(bins, counts, strict=True)))
        return sketch

    def to_bytes(self) -> bytes:
        """All bins that are not empty, then their counts, as little-endian integers of 4 bytes each: sparse,
        since most sketches in the database have few runs."""
        return np.array([*self._counts.keys(), *self._counts.values()], _STORED).tobytes()

    def add(self, values: Iterable[float]) -> None:
        """Count more positive values."""
        self._counts.update(ceil(log(value) * _BINS_PER_E_FOLD) for value in values)

    def merge(self, other: QuantileSketch) -> None:
        """Count all values of another sketch."""
        self._counts.update(other._counts)

    def bins(self) -> list[tuple[int, int]]:
        """The bins that are not empty, with their counts, in order."""
        return sorted(self._counts.items())

    def quantile(self, q: float) -> float:
        """The least value that at least the share q of all values does not exceed, within ACCURACY.

        Raises ValueError for no values.
        """
        if not self._counts:
            raise ValueError("the quantile of no values is undefined")
        bins = self.bins()
        up_to = accumulate(n for _, n in bins)
        enough = q * self._counts.total() * (1 - 1e-12)  # 0.95 * 20 is a little more than 19
        b = next((b for (b, _), seen in zip(bins, up_to, strict=True) if seen >= enough), bins[-1][0])
        return float(2 * _GAMMA**b / (_GAMMA + 1))


SIZED_RUNS_FOR_A_LINE = 3
MIN_SPREAD = 1e-9
"""Sizes whose deviation is less than this share of their mean are one size."""


@dataclass(frozen=True, slots=True)
class RunStatistics:
    """Statistics of some runs.

    `count`, `mean_s`, `squares_s2` (sum of squared deviations from the mean) and `least_s` are of all of
    them; the others of those `sized_count` that had a size: the means of time and size, the sum of squared
    deviations of the size, and the sum of products of both deviations.
    """

    count: int = 0
    mean_s: float = 0.0
    squares_s2: float = 0.0
    least_s: float = float("inf")
    sized_count: int = 0
    sized_mean_s: float = 0.0
    mean_size: float = 0.0
    squares_size2: float = 0.0
    products: float = 0.0

    @classmethod
    def of(cls, run_times_s: Sequence[float], sizes: Sequence[float | None] = ()) -> RunStatistics:
        """Statistics of some runs; `sizes` of the same length where any of them has one."""
        if not run_times_s:
            return cls()
        mean_s, squares_s2 = _mean_and_squares(run_times_s)
        some = (len(run_times_s), mean_s, squares_s2, min(run_times_s))
        sized = [(t, x) for t, x in zip(run_times_s, sizes, strict=False) if x is not None]
        if not sized:
            return cls(*some)
        mean_size, squares_size2 = _mean_and_squares([x for _, x in sized])
        sized_mean_s = fsum(t for t, _ in sized) / len(sized)
        products = fsum((t - sized_mean_s) * (x - mean_size) for t, x in sized)
        return cls(*some, len(sized), sized_mean_s, mean_size, squares_size2, products)

    def merged(self, other: RunStatistics) -> RunStatistics:
        """Statistics of the runs of both (Chan, Golub and LeVeque 1979)."""
        if not self.count or not other.count:
            return self if self.count else other
        n = self.count + other.count
        between_s = other.mean_s - self.mean_s
        squares_s2 = self.squares_s2 + other.squares_s2 + between_s**2 * self.count * other.count / n
        all_s = (n, self.mean_s + between_s * other.count / n, squares_s2, min(self.least_s, other.least_s))
        sized = self.sized_count + other.sized_count
        if not sized:
            return RunStatistics(*all_s)
        share = other.sized_count / sized
        between_s, between = other.sized_mean_s - self.sized_mean_s, other.mean_size - self.mean_size
        weight = self.sized_count * share
        return RunStatistics(
            *all_s,
            sized,
            self.sized_mean_s + between_s * share,
            self.mean_size + between * share,
            self.squares_size2 + other.squares_size2 + between**2 * weight,
            self.products + other.products + between_s * between * weight,
        )

    def scaled(self, factor: float) -> RunStatistics:
        """Statistics of the same runs, had each taken `factor` times as long."""
        return replace(
            self,
            mean_s=self.mean_s * factor,
            squares_s2=self.squares_s2 * factor**2,
            least_s=self.least_s * factor,
            sized_mean_s=self.sized_mean_s * factor,
            products=self.products * factor,
        )

    @property
    def deviation_s(self) -> float | None:
        """The standard deviation, from n - 1; None of fewer than two runs."""
        return sqrt(self.squares_s2 / (self.count - 1)) if self.count > 1 else None

    @property
    def has_line(self) -> bool:
        """Whether there are enough sized runs, of more than one size."""
        # Equal sizes have squares too, by rounding of their mean.
        rounding = MIN_SPREAD**2 * self.sized_count * self.mean_size**2
        return self.sized_count >= SIZED_RUNS_FOR_A_LINE and self.squares_size2 > rounding

    def expected_s(self, size: float | None = None) -> float:
        """The mean; for a job with a size the least-squares line where there is one, but no less than the
        shortest run, since the line may fall below zero."""
        if size is None or not self.has_line:
            return self.mean_s
        slope = self.products / self.squares_size2
        return max(self.sized_mean_s + slope * (size - self.mean_size), self.least_s)


def merged(parts: Sequence[RunStatistics]) -> RunStatistics:
    """The statistics of the runs of all parts."""
    return reduce(RunStatistics.merged, parts, RunStatistics())


def _mean_and_squares(values: Sequence[float]) -> tuple[float, float]:
    mean = fsum(values) / len(values)
    return mean, fsum((value - mean) ** 2 for value in values)
