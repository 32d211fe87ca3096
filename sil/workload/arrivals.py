"""When jobs arrive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Arrivals(Protocol):
    def times_s(self, n: int, luck: np.random.Generator) -> NDArray[np.float64]:
        """Arrival times of n jobs, in order."""
        ...


@dataclass(frozen=True, slots=True)
class AtOnce:
    """All jobs are there at time 0."""

    def times_s(self, n: int, luck: np.random.Generator) -> NDArray[np.float64]:
        return np.zeros(n)


@dataclass(frozen=True, slots=True)
class Poisson:
    """A Poisson process with a mean of `jobs_per_quantum` jobs in each `quantum_s` seconds."""

    jobs_per_quantum: float
    quantum_s: float = 10.0

    def times_s(self, n: int, luck: np.random.Generator) -> NDArray[np.float64]:
        return np.cumsum(luck.exponential(self.quantum_s / self.jobs_per_quantum, n))
