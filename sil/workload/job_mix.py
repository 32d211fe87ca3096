"""Which jobs arrive: classes, queues and users drawn by their shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from scheduler.model import Job, JobClass, JobId
from sil.workload.arrivals import Arrivals


class Order(StrEnum):
    """How the classes of the mix follow on one another."""

    RANDOM = "random"
    """Each job's class is drawn by the shares: the mix itself varies."""
    SHUFFLED = "shuffled"
    """The mix is exact, up to rounding, and its order is drawn."""
    CYCLIC = "cyclic"
    """Class = index mod number of classes; the shares are not used."""


@dataclass(frozen=True)
class JobMix:
    """Shares of job classes, queues and users; they need not add up to 1."""

    classes: Mapping[str, float]
    queues: Mapping[str, float]
    users: Mapping[str, float]
    order: Order = Order.RANDOM

    def jobs(
        self, n: int, arrivals: Arrivals, job_classes: Sequence[JobClass], luck: np.random.Generator
    ) -> list[Job]:
        """`n` jobs of the site's `job_classes`, ids from 0 in order of arrival."""
        names = self._class_names(n, luck)
        queues = _draw(self.queues, n, luck)
        users = _draw(self.users, n, luck)
        preferred = {job_class.name: job_class.preferred for job_class in job_classes}
        return [
            Job(JobId(i), names[i], float(arrival_s), users[i], queues[i], preferred[names[i]])
            for i, arrival_s in enumerate(arrivals.times_s(n, luck))
        ]

    def _class_names(self, n: int, luck: np.random.Generator) -> list[str]:
        match self.order:
            case Order.RANDOM:
                return _draw(self.classes, n, luck)
            case Order.SHUFFLED:
                # Evenly spaced points on the shares' cumulative line: each class gets its share, rounded.
                names = _pick(self.classes, (np.arange(n) + 0.5) / n)
                return [names[k] for k in luck.permutation(n)]
            case Order.CYCLIC:
                names = list(self.classes)
                return [names[i % len(names)] for i in range(n)]


def _draw(shares: Mapping[str, float], n: int, luck: np.random.Generator) -> list[str]:
    return _pick(shares, luck.random(n))


def _pick(shares: Mapping[str, float], quantiles: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[str]:
    names = list(shares)
    upper = np.cumsum(list(shares.values()))
    places = np.searchsorted(upper / upper[-1], quantiles, side="right")
    return [names[min(place, len(names) - 1)] for place in places.tolist()]
