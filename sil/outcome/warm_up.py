"""Whether a warm-up is long enough: whether what is measured after it still shows that the machine was empty
before it."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, sqrt
from typing import NamedTuple, Self

import numpy as np

ENOUGH = 4.0
"""The time constants after which the mean queue is within 2 % of that of a machine that has always run."""


class WarmUp(NamedTuple):
    """How many jobs a warm-up has, how long it lasts, and the mean wait and the utilisation (a share) after
    it."""

    jobs: float
    lasts_s: float
    wait_s: float
    utilisation: float

    @classmethod
    def mean(cls, of: Iterable[Self]) -> Self:
        return cls(*(float(each) for each in np.mean([*of], axis=0)))

    @property
    def needed_s(self) -> float:
        """The least length that is enough.

        Queues approach their mean like exp(-t / c) with c = (a² + b²) / (2.8 m (1 - √r)²), where a and b are
        the coefficients of variation of interarrival and service times, m the rate of service and r the
        utilisation (Odoni and Roth, "An empirical investigation of the transient behavior of stationary
        queueing systems", Operations Research 31, 1983). How variable jobs are is seen from their mean wait,
        r (a² + b²) / (2 m (1 - r)) (Kingman 1961).
        """
        r = self.utilisation
        if not self.wait_s or r >= 1.0:
            return inf if self.wait_s else 0.0
        return ENOUGH * self.wait_s * (1.0 + sqrt(r)) ** 2 / (1.4 * r * (1.0 - r)) if r else 0.0

    def too_short(self, remedy: str, most: float = inf) -> str:
        """That it is too short, with the remedy, which names as {} how many jobs would do, at `most` all
        before; empty if it is long enough."""
        if self.lasts_s >= self.needed_s:
            return ""
        jobs, last = "more", "all the time"
        if self.needed_s < inf:
            last = f"about {self.needed_s / 3600:,.0f} h"
            jobs = f"{min(float(f'{self.jobs * self.needed_s / self.lasts_s:.1e}'), most):.0f}"
        return (
            f"is too short: it lasts {self.lasts_s / 3600:,.1f} h, and with a mean wait of "
            f"{self.wait_s / 3600:,.1f} h at {100 * self.utilisation:.0f} % utilisation a queue shows for "
            f"{last} that it began empty; waits are too short, and differences may have the wrong sign; "
            f"{remedy.format(jobs)}"
        )
