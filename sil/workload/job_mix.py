"""Which jobs arrive: classes, queues and users drawn by their shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

import numpy as np

from scheduler.model import Job, JobClass, JobId
from sil.workload.arrivals import Arrivals

Number = TypeVar("Number", int, float)


class Order(StrEnum):
    """How the classes of the mix follow on one another."""

    RANDOM = "random"
    """Each job's class is drawn by the shares: the mix itself varies."""
    SHUFFLED = "shuffled"
    """The mix is exact, up to rounding, and its order is drawn."""
    CYCLIC = "cyclic"
    """Class = index mod number of classes; the shares are not used."""


class QueueOrder(StrEnum):
    """Which jobs go to which queue."""

    RANDOM = "random"
    """Each job's queue is drawn by the shares."""
    BLOCKS = "blocks"
    """The first jobs go to the first queue, and so on: n times its share, rounded half to even; the rest to
    the last."""


@dataclass(frozen=True)
class JobMix:
    """Shares of job classes, queues and users; they need not add up to 1.

    A user "bob as ann" is bob who submits as ann. Jobs of a class with `sizes` have one of them, all equally
    likely, and so with numbers of parallel `tasks`.
    """

    classes: Mapping[str, float]
    queues: Mapping[str, float]
    users: Mapping[str, float]
    order: Order = Order.RANDOM
    queue_order: QueueOrder = QueueOrder.RANDOM
    sizes: Mapping[str, Sequence[float]] = field(default_factory=dict)
    tasks: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def jobs(
        self, n: int, arrivals: Arrivals, job_classes: Sequence[JobClass], luck: np.random.Generator
    ) -> list[Job]:
        """`n` jobs of the site's `job_classes`, ids from 0 in order of arrival."""
        names = self._class_names(n, luck)
        queues = self._queue_names(n, luck)
        users = _draw(self.users, n, luck)
        preferred = {job_class.name: job_class.preferred for job_class in job_classes}
        arrivals_s = arrivals.times_s(n, luck)
        sizes = _one_of_each(self.sizes, names, luck)
        tasks = _one_of_each(self.tasks, names, luck)
        jobs = []
        for i, name in enumerate(names):
            submitted_by, _, another = users[i].partition(" as ")
            user, by = (another, submitted_by) if another else (submitted_by, None)
            jobs.append(
                Job(
                    JobId(i),
                    name,
                    float(arrivals_s[i]),
                    user,
                    queues[i],
                    preferred[name],
                    sizes[i],
                    by,
                    tasks[i] or 1,
                )
            )
        return jobs

    def _queue_names(self, n: int, luck: np.random.Generator) -> list[str]:
        if self.queue_order is QueueOrder.RANDOM:
            return _draw(self.queues, n, luck)
        names, whole = list(self.queues), sum(self.queues.values())
        blocks = [[name] * round(n * self.queues[name] / whole) for name in names[:-1]]
        first = [name for block in blocks for name in block][:n]
        return first + [names[-1]] * (n - len(first))

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


def _one_of_each(
    listed: Mapping[str, Sequence[Number]], names: Sequence[str], luck: np.random.Generator
) -> list[Number | None]:
    """For each job one of what is listed for its class, all equally likely."""
    if not listed:  # drawing nothing leaves the luck of workloads without them as it is
        return [None] * len(names)
    quantiles = luck.random(len(names))
    of_jobs = [listed.get(name, ()) for name in names]
    return [
        choices[int(q * len(choices))] if choices else None
        for choices, q in zip(of_jobs, quantiles.tolist(), strict=True)
    ]


def _draw(shares: Mapping[str, float], n: int, luck: np.random.Generator) -> list[str]:
    return _pick(shares, luck.random(n))


def _pick(shares: Mapping[str, float], quantiles: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[str]:
    names = list(shares)
    upper = np.cumsum(list(shares.values()))
    places = np.searchsorted(upper / upper[-1], quantiles, side="right")
    return [names[min(place, len(names) - 1)] for place in places.tolist()]
