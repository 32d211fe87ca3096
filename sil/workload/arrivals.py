"""The jobs of a run as they arrive: drawn at random, with classes, queues and users by their shares; or
those of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scheduler import UserError
from scheduler.model import Job, JobClass, JobId
from scheduler.node_request import Request
from sil.workload.job_log import DUE_IN_S, JOB_CLASS, QUEUE, queue_of, user_names
from site_db.jobs.logged import Charged

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Poisson:
    """A Poisson process with a mean of `jobs_per_quantum` jobs in each `quantum_s` seconds."""

    jobs_per_quantum: float
    quantum_s: float = 10.0

    def times_s(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Arrival times of n jobs, in order."""
        return np.cumsum(rng.exponential(self.quantum_s / self.jobs_per_quantum, n))


class Order(StrEnum):
    """The order of the classes of the mix."""

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
    """The first n times its share, rounded half to even, go to the first queue, and so on; the rest to the
    last."""


@dataclass(frozen=True)
class JobMix:
    """Shares of job classes, queues and users; they need not add up to 1.

    A user "bob as ann" is bob who submits as ann. Sizes and numbers of parallel tasks are drawn from those of
    the class in `sizes` and `tasks`, all equally likely.
    """

    classes: Mapping[str, float]
    queues: Mapping[str, float]
    users: Mapping[str, float]
    order: Order = Order.RANDOM
    queue_order: QueueOrder = QueueOrder.RANDOM
    sizes: Mapping[str, Sequence[float]] = field(default_factory=dict)
    tasks: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def jobs(
        self, n: int, arrivals: Poisson | None, job_classes: Sequence[JobClass], rng: np.random.Generator
    ) -> list[Job]:
        """`n` jobs of the site's `job_classes`, ids from 0 in order of arrival. Without `arrivals`, all
        of them arrive at time 0. Raises UserError."""
        if not self.classes:
            raise UserError("the site has no job classes, of which jobs could be drawn; give it some")
        names = self._class_names(n, rng)
        queues = self._queue_names(n, rng)
        users = _draw(self.users, n, rng)
        preferred = {job_class.name: job_class.preferred for job_class in job_classes}
        arrivals_s = np.zeros(n) if arrivals is None else arrivals.times_s(n, rng)
        sizes = _one_of_each(self.sizes, names, rng)
        tasks = _one_of_each(self.tasks, names, rng)
        jobs = []
        for i, name in enumerate(names):
            submitted_by, _, another = users[i].partition(" as ")
            user, by = (another, submitted_by) if another else (submitted_by, None)
            where = queues[i], preferred[name]
            job = Job(JobId(i), name, float(arrivals_s[i]), user, *where, sizes[i], by, tasks[i] or 1)
            jobs.append(job)
        return jobs

    def _queue_names(self, n: int, rng: np.random.Generator) -> list[str]:
        if self.queue_order is QueueOrder.RANDOM:
            return _draw(self.queues, n, rng)
        names, whole = list(self.queues), sum(self.queues.values())
        blocks = [[name] * round(n * self.queues[name] / whole) for name in names[:-1]]
        first = [name for block in blocks for name in block][:n]
        return first + [names[-1]] * (n - len(first))

    def _class_names(self, n: int, rng: np.random.Generator) -> list[str]:
        match self.order:
            case Order.RANDOM:
                return _draw(self.classes, n, rng)
            case Order.SHUFFLED:
                # Evenly spaced points on the shares' cumulative line: each class gets its share, rounded.
                names = _pick(self.classes, (np.arange(n) + 0.5) / n)
                return [names[k] for k in rng.permutation(n)]
            case Order.CYCLIC:
                names = list(self.classes)
                return [names[i % len(names)] for i in range(n)]


def _one_of_each(
    listed: Mapping[str, Sequence[Number]], names: Sequence[str], rng: np.random.Generator
) -> list[Number | None]:
    """One of the values listed for the class of each job, all equally likely."""
    if not listed:  # without a draw, so that workloads without such values do not change
        return [None] * len(names)
    quantiles = rng.random(len(names))
    of_jobs = [listed.get(name, ()) for name in names]
    return [
        choices[int(q * len(choices))] if choices else None
        for choices, q in zip(of_jobs, quantiles.tolist(), strict=True)
    ]


def _draw(shares: Mapping[str, float], n: int, rng: np.random.Generator) -> list[str]:
    return _pick(shares, rng.random(n))


def _pick(shares: Mapping[str, float], quantiles: NDArray[np.float64]) -> list[str]:
    names = list(shares)
    upper = np.cumsum(list(shares.values()))
    places = np.searchsorted(upper / upper[-1], quantiles, side="right")
    return [names[min(place, len(names) - 1)] for place in places.tolist()]


PROGRESS_EVERY = 500
"""The number of arrivals from one call of `on_arrivals` to the next."""


class LoggedRuns:
    """The jobs of a log, one by one, and the actual run times of those that have arrived.

    `log` has the columns job, submit_s, run_s, processors, estimate_s and user, in order of submission, then
    of job number; with `requests`, also their positions, `request`. `on_arrivals` is called with the number
    of jobs that have arrived. `users` are the names of users; one without a name is `user-` and the number.
    `job_classes` are those of the requests. `served` are the queues in order of service, if any; `charged`
    are accounts and qualities of service, at the positions `charged` of the jobs.
    """

    def __init__(
        self,
        log: pl.DataFrame,
        on_arrivals: Callable[[int], None] = lambda n: None,
        requests: Sequence[Request] = (),
        users: Mapping[int, str] = MappingProxyType({}),
        job_classes: Sequence[str] = (),
        served: Sequence[str] = (),
        charged: Sequence[Charged] = (),
    ) -> None:
        self._charged = charged
        self._log, self._requests, self._users, self._served = log, requests, users, served
        self._job_classes = job_classes or [JOB_CLASS] * len(requests)
        self._on_arrivals = on_arrivals
        self._run_s: dict[int, float] = {}
        self._last = JobId(max(log["job"].to_list(), default=0))
        self.total = len(log)

    def arrivals(self) -> Iterator[Job]:
        """The jobs in order of arrival. The queue of a job with a request is that of its partitions."""
        if not self._requests:
            return self._rigid_jobs()
        queues = [queue_of(request, self._served) for request in self._requests]
        rigid = zip(self._rigid_jobs(), self._log["request"].to_list(), strict=True)
        jobs = (
            job._replace(job_class=self._job_classes[k], queue=queues[k], request=self._requests[k])
            for job, k in rigid
        )
        if not self._charged:
            return jobs
        charged = zip(jobs, self._log["charged"].to_list(), strict=True)
        return (job._replace(**self._charged[k]._asdict()) for job, k in charged)

    def _rigid_jobs(self) -> Iterator[Job]:
        has_deadlines = DUE_IN_S in self._log.columns
        columns = self._log.select(
            *("job", "submit_s", "run_s", "processors", "estimate_s", "user"),
            pl.when(pl.col(DUE_IN_S) < inf).then(DUE_IN_S) if has_deadlines else pl.lit(None),
        )
        names = user_names(self._log["user"].unique(), self._users)
        run_times, n = self._run_s, 0
        for part in columns.iter_slices(PROGRESS_EVERY):
            self._on_arrivals(n)
            n += len(part)
            for job, submit_s, run_s, n_tasks, estimate_s, user, limit_s in part.rows():
                run_times[job] = run_s
                name = names[user]
                yield Job(job, JOB_CLASS, submit_s, name, QUEUE, (), None, None, n_tasks, limit_s, estimate_s)
        self._on_arrivals(n)

    def add(self, submit_s: float, run_s: float, processors: int, estimate_s: float | None) -> Job:
        """Add a job that is not in the log, with its actual run time."""
        self._last = JobId(self._last + 1)
        self._run_s[self._last] = run_s
        return Job(self._last, JOB_CLASS, submit_s, n_tasks=processors, estimate_s=estimate_s)

    def run_s(self, job: Job) -> float:
        """The actual run time of a job that has arrived."""
        return self._run_s[job.id]
