"""How long runs really take. Only the simulated machines know."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log1p, sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri

from scheduler.mapping.etc import EtcMatrix
from scheduler.model import Job


class Spread(Protocol):
    """How run times scatter around their mean."""

    def factor(self, quantile: float) -> float:
        """What the mean is multiplied with for a job whose luck is `quantile`, in (0, 1)."""
        ...


@dataclass(frozen=True, slots=True)
class NoSpread:
    """Every run takes exactly its mean time."""

    def factor(self, quantile: float) -> float:
        return 1.0


@dataclass(frozen=True, slots=True)
class Normal:
    """Normal with mean 1 and the given coefficient of variation, never below 0.1."""

    coefficient_of_variation: float

    def factor(self, quantile: float) -> float:
        return max(0.1, 1.0 + self.coefficient_of_variation * float(ndtri(quantile)))


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Lognormal with mean 1 and the given coefficient of variation."""

    coefficient_of_variation: float

    def factor(self, quantile: float) -> float:
        variance = log1p(self.coefficient_of_variation**2)
        return exp(sqrt(variance) * float(ndtri(quantile)) - variance / 2)


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gamma with mean 1 and the given coefficient of variation."""

    coefficient_of_variation: float

    def factor(self, quantile: float) -> float:
        shape = self.coefficient_of_variation**-2
        return float(gammaincinv(shape, quantile)) / shape


@dataclass(frozen=True, slots=True)
class Empirical:
    """One of some ratios of true to expected time, all equally likely, brought to mean 1."""

    ratios: tuple[float, ...]

    def factor(self, quantile: float) -> float:
        ordered = sorted(self.ratios)
        return ordered[int(quantile * len(ordered))] * len(ordered) / sum(ordered)


class ActualRuntimes:
    """True run time of each job on each resource.

    `mean[job.id, j]` is that of a job on resource j with all cluster members. The luck of a job is one
    quantile, `luck[job.id]`, applied to the distribution of whatever resource it gets and kept over restarts:
    schedulers that are compared meet the same luck.
    """

    def __init__(self, mean: EtcMatrix, spread: Spread, luck: NDArray[np.float64]) -> None:
        self._mean = mean
        self._spread = spread
        self._luck = luck

    def can_run(self, job: Job, resource: int) -> bool:
        return self._mean[job.id, resource] < inf

    def run_s(self, job: Job, resource: int, share_of_members: float) -> float:
        """Seconds that `job` runs on `resource`; with fewer cluster members than all it takes longer."""
        mean_s = self._mean[job.id, resource]
        return mean_s * self._spread.factor(float(self._luck[job.id])) / share_of_members
