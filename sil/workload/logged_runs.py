"""The jobs of a log as they arrive, and their actual run times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import polars as pl

from scheduler.model import Job, JobId
from scheduler.node_request import Request
from sil.workload.job_log import JOB_CLASS, QUEUE, queue_of, user_names

PROGRESS_EVERY = 500
"""Number of arrivals from one call of `on_arrivals` to the next."""


class LoggedRuns:
    """The jobs of a log, one by one, and the actual run times of those that have arrived.

    `log` has the columns job, submit_s, run_s, processors, estimate_s and user, in order of submission, then
    of job number; with `requests`, also their positions, `request`. `on_arrivals` is called with the number
    of jobs that have arrived. `users` are the names of users; one without a name is `user-` and the number.
    `job_classes` are those of the requests. `served` are the queues in order of service, if any.
    """

    def __init__(
        self,
        log: pl.DataFrame,
        on_arrivals: Callable[[int], None] = lambda n: None,
        requests: Sequence[Request] = (),
        users: Mapping[int, str] = MappingProxyType({}),
        job_classes: Sequence[str] = (),
        served: Sequence[str] = (),
    ) -> None:
        self._log, self._requests, self._users, self._served = log, requests, users, served
        self._job_classes = job_classes or [JOB_CLASS] * len(requests)
        self._on_arrivals = on_arrivals
        self._run_s: dict[int, float] = {}
        self._last = JobId(max(log["job"].to_list(), default=0))
        self.total = len(log)

    def arrivals(self) -> Iterator[Job]:
        """In order of arrival. The queue of a job with a request is that of its partitions."""
        if not self._requests:
            return self._rigid_jobs()
        queues = [queue_of(request, self._served) for request in self._requests]
        rigid = zip(self._rigid_jobs(), self._log["request"].to_list(), strict=True)
        return (
            job._replace(job_class=self._job_classes[k], queue=queues[k], request=self._requests[k])
            for job, k in rigid
        )

    def _rigid_jobs(self) -> Iterator[Job]:
        columns = self._log.select("job", "submit_s", "run_s", "processors", "estimate_s", "user")
        names = user_names(self._log["user"].unique(), self._users)
        run_times, n = self._run_s, 0
        for part in columns.iter_slices(PROGRESS_EVERY):
            self._on_arrivals(n)
            n += len(part)
            for job, submit_s, run_s, processors, estimate_s, user in part.rows():
                run_times[job] = run_s
                name = names[user]
                yield Job(job, JOB_CLASS, submit_s, name, QUEUE, (), None, None, processors, None, estimate_s)
        self._on_arrivals(n)

    def add(self, submit_s: float, run_s: float, processors: int, estimate_s: float | None) -> Job:
        """Add a job that is not in the log, with its actual run time."""
        self._last = JobId(self._last + 1)
        self._run_s[self._last] = run_s
        return Job(self._last, JOB_CLASS, submit_s, n_tasks=processors, estimate_s=estimate_s)

    def run_s(self, job: Job) -> float:
        """The actual run time of a job that has arrived."""
        return self._run_s[job.id]
