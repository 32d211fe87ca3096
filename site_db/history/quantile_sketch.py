"""Quantiles of run times in little space: counts per bin of equal *relative* width.

This is the sketch of Masson, Rim and Lee (DDSketch, VLDB 2019): every quantile is within ACCURACY of the
exact one, and merging is adding counts. So a sketch depends on the values alone, not on their batches or
order. There are at most 116 bins for each factor of ten between the shortest and the longest time.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from itertools import accumulate
from math import ceil, log

ACCURACY = 0.01
"""Greatest relative error of a quantile."""

_GAMMA = (1 + ACCURACY) / (1 - ACCURACY)
_BINS_PER_E_FOLD = 1 / log(_GAMMA)


class QuantileSketch:
    """The number of values in each bin; bin b has the values in (gamma^(b-1), gamma^b]."""

    __slots__ = ("_counts",)

    def __init__(self, values: Iterable[float] = ()) -> None:
        """The sketch of some positive values."""
        self._counts: dict[int, int] = {}
        self.add(values)

    @classmethod
    def from_bytes(cls, data: bytes) -> QuantileSketch:
        """The inverse of `to_bytes`."""
        numbers = _in_file_order(array("i", data))
        n = len(numbers) // 2
        sketch = cls()
        sketch._counts = dict(zip(numbers[:n], numbers[n:], strict=True))
        return sketch

    def to_bytes(self) -> bytes:
        """All bins that are not empty, then their counts, as little-endian integers of 4 bytes each: sparse,
        since most sketches in the database have few runs."""
        numbers = array("i", self._counts.keys())
        numbers.extend(self._counts.values())
        return _in_file_order(numbers).tobytes()

    def add(self, values: Iterable[float]) -> None:
        """Count more positive values."""
        counts = self._counts
        for value in values:
            b = ceil(log(value) * _BINS_PER_E_FOLD)
            counts[b] = counts.get(b, 0) + 1

    def merge(self, other: QuantileSketch) -> None:
        """Count all values of another sketch."""
        for b, n in other._counts.items():
            self._counts[b] = self._counts.get(b, 0) + n

    def bins(self) -> list[tuple[int, int]]:
        """The bins that are not empty, with their counts, in order."""
        return sorted(self._counts.items())

    @property
    def count(self) -> int:
        """How many values there are."""
        return sum(self._counts.values())

    def quantile(self, q: float) -> float:
        """The least value that at least the share q of all values does not exceed, within ACCURACY.

        Raises ValueError for no values.
        """
        if not self._counts:
            raise ValueError("the quantile of no values is undefined")
        bins = self.bins()
        up_to = accumulate(n for _, n in bins)
        enough = q * self.count * (1 - 1e-12)  # 0.95 * 20 is a little more than 19
        b = next((b for (b, _), seen in zip(bins, up_to, strict=True) if seen >= enough), bins[-1][0])
        return float(2 * _GAMMA**b / (_GAMMA + 1))


def _in_file_order(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
