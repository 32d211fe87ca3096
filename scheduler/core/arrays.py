"""Arrays that grow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.core.codes import NONE

Floats = NDArray[np.float64]
Floats2 = NDArray[np.float64]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]
Ints2 = NDArray[np.int64]

MIN_SIZE = 256
"""The capacity of new arrays, in rows."""


def floats(n: int) -> NDArray[np.float64]:
    return np.zeros(n)


def integers(n: int) -> NDArray[np.int64]:
    return np.zeros(n, np.int64)


def nones(n: int) -> NDArray[np.int64]:
    return integers(n) + NONE


def larger(array: Any, n: int) -> NDArray[Any]:
    """Return a copy with room for `n` rows; the new ones are zero."""
    old = np.asarray(array)
    new = np.zeros((n, *old.shape[1:]), old.dtype)
    new[: len(old)] = old
    return new
