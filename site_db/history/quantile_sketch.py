"""Quantiles of run times in little space: counts per bin of equal *relative* width.

This is the sketch of Masson, Rim and Lee (DDSketch, VLDB 2019): every quantile is told within ACCURACY of the
true one, and merging is adding counts. So what a sketch says depends on the values alone, and not on how they
were divided into batches or in which order these came. Its size grows with the logarithm of the longest time
over the shortest: 116 bins for each factor of ten.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator
from itertools import accumulate
from math import ceil, log

ACCURACY = 0.01
"""Greatest relative error of a quantile."""

_GAMMA = (1 + ACCURACY) / (1 - ACCURACY)
_BINS_PER_E_FOLD = 1 / log(_GAMMA)


class QuantileSketch:
    """How many values are in each bin; bin b holds the values in (gamma^(b-1), gamma^b]."""

    __slots__ = ("_counts", "_first")

    def __init__(self, values: Iterable[float] = ()) -> None:
        """The sketch of some positive values."""
        self._first = 0
        """The bin that the first count is of."""
        self._counts = array("i")
        self.add(values)

    @classmethod
    def from_bytes(cls, data: bytes) -> QuantileSketch:
        """The sketch that `to_bytes` made the bytes of."""
        sketch = cls()
        if data:
            numbers = array("i", data)
            if sys.byteorder == "big":
                numbers.byteswap()
            sketch._first, sketch._counts = numbers[0], numbers[1:]
        return sketch

    def to_bytes(self) -> bytes:
        """The first bin and all counts from there to the last one, as little-endian integers of 4 bytes each:
        as it is kept in the database."""
        numbers = array("i", (self._first,)) + self._counts if self._counts else self._counts
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers.tobytes()

    def add(self, values: Iterable[float]) -> None:
        """Count some more positive values."""
        for value in values:
            self._count(ceil(log(value) * _BINS_PER_E_FOLD), 1)

    def merge(self, other: QuantileSketch) -> None:
        """Count all that the other one has counted."""
        for b, n in other.bins():
            self._count(b, n)

    def bins(self) -> Iterator[tuple[int, int]]:
        """The bins that are not empty, with their counts, in order."""
        return ((b, n) for b, n in enumerate(self._counts, start=self._first) if n)

    @property
    def count(self) -> int:
        """How many values there are."""
        return sum(self._counts)

    def quantile(self, q: float) -> float:
        """The value of rank q (count - 1), rounded down, within ACCURACY. Raises ValueError for no values."""
        if not self._counts:
            raise ValueError("there are no values to tell a quantile of")
        rank = q * (self.count - 1)
        last = self._first + len(self._counts) - 1
        up_to = enumerate(accumulate(self._counts), start=self._first)
        b = next((b for b, seen in up_to if seen > rank), last)
        return float(2 * _GAMMA**b / (_GAMMA + 1))

    def _count(self, b: int, n: int) -> None:
        if not self._counts:
            self._first = b
        if b < self._first:
            self._counts = array("i", bytes(4 * (self._first - b))) + self._counts
            self._first = b
        beyond = b - self._first - len(self._counts) + 1
        if beyond > 0:
            self._counts.frombytes(bytes(4 * beyond))
        self._counts[b - self._first] += n
