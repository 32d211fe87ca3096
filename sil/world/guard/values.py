"""Whether values of a scheduler are ones that everything behind can compute with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite, nan
from numbers import Real
from operator import index
from typing import SupportsIndex, TypeGuard, TypeVar

import numpy as np

from scheduler.rules import RETURNS_A_SCHEDULE
from sil.world.guard.faults import SchedulerFault, one_line

Value = TypeVar("Value")

LARGEST = 2**53
"""Larger integers are no indices or numbers of runs."""

MORE = 1_000
"""There may be twice as many parts as there can be, and so many more: which rule that breaks is for others to
say, but it ends."""


def is_finite(value: object) -> bool:
    """Whether it is a number that fits into a floating-point number, and no infinity."""
    try:
        return isinstance(value, Real) and isfinite(value)
    except (OverflowError, TypeError, ValueError):
        return False


def is_index(value: object) -> TypeGuard[int]:
    """Whether it is a plain integer that fits into tables."""
    return type(value) is int and -LARGEST <= value <= LARGEST


def whole(value: SupportsIndex) -> int:
    """A plain integer. Raises TypeError and ValueError for other values, and for one too large for tables."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError("expected an integer, not a truth value")
    found = int(index(value))
    if not is_index(found):
        raise ValueError(f"{one_line(found)} is too large")
    return found


def bounded(values: Iterable[Value], n: int) -> Iterator[Value]:
    """`values`, of which there can be `n`. Raises SchedulerFault if there are many more."""
    most = 2 * n + MORE
    for k, value in enumerate(values):
        if k == most:
            message = f"a part of what it gives has more than {most:,} entries"
            raise SchedulerFault(RETURNS_A_SCHEDULE, message, nan)
        yield value
