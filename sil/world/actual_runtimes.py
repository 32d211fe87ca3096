"""Random streams, and the actual run times drawn from them, which only the simulated machines read."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, inf, log1p, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from scheduler.mapping.etc import EtcMatrix
from scheduler.model import Job


@dataclass(frozen=True, slots=True)
class Variation:
    """The distribution of run times around their mean, with this coefficient of variation; that of the normal
    one is never below 0.1. By default, every run takes exactly its mean time."""

    kind: Literal["none", "normal", "lognormal", "gamma"] = "none"
    coefficient: float = 0.0

    def factor(self, quantile: float) -> float:
        """The run time as a multiple of the mean, at a quantile in (0, 1)."""
        if self.kind == "none":
            return 1.0
        from scipy.special import gammaincinv, ndtri  # long to import, and only a process that draws needs it

        if self.kind == "gamma":
            shape = self.coefficient**-2
            return float(gammaincinv(shape, quantile)) / shape
        if self.kind == "normal":
            return max(0.1, 1.0 + self.coefficient * float(ndtri(quantile)))
        variance = log1p(self.coefficient**2)
        return exp(sqrt(variance) * float(ndtri(quantile)) - variance / 2)


class Empirical:
    """Ratios of actual to expected time, all equally likely, scaled to mean 1."""

    def __init__(self, ratios: Iterable[float]) -> None:
        ordered = sorted(ratios)
        n, total = len(ordered), sum(ordered)
        self._factors = [ratio * n / total for ratio in ordered]

    def factor(self, quantile: float) -> float:
        return self._factors[int(quantile * len(self._factors))]


Spread = Variation | Empirical


class ActualRuntimes:
    """The actual run time of each job on each resource.

    `mean[job.id, j]` is that of a job on resource j with all cluster members. A job has one quantile,
    `quantiles[job.id]`, which applies on every resource and after restarts, so that compared schedulers meet
    the same run times.
    """

    def __init__(self, mean: EtcMatrix, spread: Spread, quantiles: NDArray[np.float64]) -> None:
        self._mean = mean
        self._spread = spread
        self._quantiles = quantiles

    def can_run(self, job: Job, resource: int) -> bool:
        return self._mean[job.id, resource] < inf

    def run_s(self, job: Job, resource: int, share_of_members: float) -> float:
        """Seconds that `job` runs on `resource`, with a share of the cluster's members."""
        mean_s = self._mean[job.id, resource]
        return mean_s * self._spread.factor(float(self._quantiles[job.id])) / share_of_members


class RuntimesOnNodes:
    """The actual run time of each job on nodes: that of its class on the slowest of their machine classes.

    `mean[job.id, resources[n]]` is that of a job on node n; infinite if nothing is known for its machine
    class, which then counts like the mean of the others. Quantiles are as in `ActualRuntimes`.
    """

    def __init__(
        self, mean: EtcMatrix, resources: Sequence[int], spread: Spread, quantiles: NDArray[np.float64]
    ) -> None:
        self._mean, self._spread, self._quantiles = mean, spread, quantiles
        self._class_of_node = mean.resource_class_of[list(resources)]
        known = np.isfinite(mean.by_class_s)
        sums, counts = np.where(known, mean.by_class_s, 0.0).sum(axis=1), known.sum(axis=1)
        self._elsewhere_s = np.divide(sums, counts, out=np.full(len(counts), inf), where=counts > 0)

    def expected_s(self, job: Job, nodes: Sequence[int] = ()) -> float:
        """The expected run time on some nodes; without any, the mean over machine classes."""
        row = int(self._mean.job_class_of[job.id])
        elsewhere_s = float(self._elsewhere_s[row])
        columns = {int(self._class_of_node[n]) for n in nodes}
        times_s = [float(self._mean.by_class_s[row, k]) for k in columns] or [elsewhere_s]
        return max(elsewhere_s if time_s == inf else time_s for time_s in times_s)

    def run_s(self, job: Job, nodes: Sequence[int]) -> float:
        """Seconds that a job runs on some nodes."""
        return self.expected_s(job, nodes) * self._spread.factor(float(self._quantiles[job.id]))


@dataclass(frozen=True)
class RandomStreams:
    """The streams of one replication, equal for all schedulers (common random numbers) and computers. Of
    several clusters, each has its own, except of what jobs have wherever they run."""

    seed: int
    replication: int = 0
    cluster: int = 0

    def of(self, name: str) -> np.random.Generator:
        key = [self.seed, self.replication, zlib.crc32(name.encode())]
        own = [self.cluster] if self.cluster and name not in ("run times", "imagined times", "limits") else []
        return np.random.default_rng([*key, *own])

    @property
    def scheduler_seed(self) -> int:
        """The seed for random schedulers."""
        return int(self.of("scheduler").integers(2**31))
