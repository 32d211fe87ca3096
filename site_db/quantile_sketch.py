"""Quantiles of run times in little space: counts per bin of equal *relative* width.

This is the sketch of Masson, Rim and Lee (DDSketch, VLDB 2019) with its bins kept sparse: every quantile is
told within ACCURACY of the true one, and merging is adding counts. So what a sketch says depends on the
values alone, and not on how they were divided into batches or in which order these came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from math import ceil, log

ACCURACY = 0.01
"""Greatest relative error of a quantile."""

_GAMMA = (1 + ACCURACY) / (1 - ACCURACY)
_BINS_PER_E_FOLD = 1 / log(_GAMMA)


@dataclass(frozen=True, slots=True)
class QuantileSketch:
    """How many values are in each bin; bin b holds the values in (gamma^(b-1), gamma^b]."""

    counts: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Iterable[float]) -> QuantileSketch:
        """The sketch of some positive values."""
        return cls(Counter(ceil(log(value) * _BINS_PER_E_FOLD) for value in values))

    @classmethod
    def from_flat(cls, numbers: Sequence[int]) -> QuantileSketch:
        """The sketch that `flat` made the numbers of."""
        return cls(dict(zip(numbers[::2], numbers[1::2], strict=True)))

    def flat(self) -> list[int]:
        """Bin, count, next bin, its count, ... in order of bins: as it is kept in the database."""
        return list(chain.from_iterable(self.pairs()))

    def pairs(self) -> list[tuple[int, int]]:
        """Bins with their counts, in order."""
        return sorted(self.counts.items())

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def merged(self, other: QuantileSketch) -> QuantileSketch:
        """The sketch of all values of both."""
        counts = dict(self.counts)
        for b, n in other.counts.items():
            counts[b] = counts.get(b, 0) + n
        return QuantileSketch(counts)

    def quantile(self, q: float) -> float:
        """The value of rank q (count - 1), rounded down, within ACCURACY. Raises ValueError for no values."""
        if not self.counts:
            raise ValueError("there are no values to tell a quantile of")
        pairs = self.pairs()
        up_to = accumulate(n for _, n in pairs)
        rank = q * (self.count - 1)
        b = next((b for (b, _), seen in zip(pairs, up_to, strict=True) if seen > rank), pairs[-1][0])
        return float(2 * _GAMMA**b / (_GAMMA + 1))
