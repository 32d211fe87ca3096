"""Statistics of numbers that arrive in parts: exact, hence the same however the numbers are divided."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf
from pathlib import Path
from tempfile import SpooledTemporaryFile

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

IN_MEMORY = 2**22
"""Bytes of numbers; more are kept in a file."""
MOST_SORTED = 2**20
"""A quantile of up to this many numbers is found in memory."""

_DIGIT = 16
"""Bits by which the numbers that may have a rank become fewer at a time."""
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
        """The sum of infinite numbers, and of those that are none."""

    def add(self, values: Numbers) -> None:
        """At most 2**26 at a time."""
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
        """By the inverted CDF: the smallest number that a `share` of the numbers do not exceed."""
        rank, n = max(ceil(share * self.sum.n) - 1, 0), self.sum.n
        begin, shift = np.uint64(0), 64
        while n > MOST_SORTED and shift > 0:
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
        """The keys of the numbers, in parts, that are `begin` without their last `shift` bits."""
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
