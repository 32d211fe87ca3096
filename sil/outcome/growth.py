"""Laws of growth: t = c n^a m^b, fitted by least squares of the logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from sil.outcome.statistics import CONFIDENCE, Interval


@dataclass(frozen=True)
class Law:
    """`coefficient` is t where all variables are 1, `exponents` are those of the variables; measured values
    are off by a factor of `spread` in the usual case (one standard deviation of the logarithm)."""

    coefficient: float
    exponents: tuple[Interval, ...]
    spread: float


def fitted(variables: Sequence[NDArray[np.float64]], values: NDArray[np.float64]) -> Law:
    """The law by which `values` grow with the variables, all above 0. With exponents' 95 % intervals.

    Raises ValueError for fewer values than it takes, or a variable that never changes.
    """
    x, y = np.log(np.column_stack(variables)), np.log(values)
    slopes, constant, deviation = least_squares(x, y)
    return Law(float(np.exp(constant)), tuple(slopes), float(np.exp(deviation)))


def least_squares(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[list[Interval], float, float]:
    """The linear model y = c + x b: slopes b with their intervals, c, and the deviation that is left.

    `x` is (n, k), `y` (n,). Raises ValueError where they do not tell the slopes.
    """
    design = np.column_stack([np.ones(len(x)), x])
    free = len(y) - design.shape[1]
    if free < 1 or np.linalg.matrix_rank(design) < design.shape[1]:
        raise ValueError(f"{len(y)} values do not tell {design.shape[1] - 1} slopes")
    found, *_ = np.linalg.lstsq(design, y, rcond=None)
    variance = float(((y - design @ found) ** 2).sum()) / free
    spread = np.sqrt(variance * np.diag(np.linalg.inv(design.T @ design)))
    t = float(stdtrit(free, (1 + CONFIDENCE) / 2))
    slopes = [Interval(float(b), t * float(s)) for b, s in zip(found[1:], spread[1:], strict=True)]
    return slopes, float(found[0]), float(np.sqrt(variance))
