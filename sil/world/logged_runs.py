"""The jobs of a log: their arrivals, and their actual run times."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl

from scheduler.model import ANYONE, Job, JobId

JOB_CLASS = "rigid"
QUEUE = "default"
PROGRESS_EVERY = 500
"""Number of arrivals from one call of `on_arrivals` to the next."""


class LoggedRuns:
    """The jobs of a log, one by one, and the actual run times of those that have arrived.

    `log` has the columns job, submit_s, run_s, processors, estimate_s and user, in order of submission, then
    of job number. `on_arrivals` is called with the number of jobs that have arrived.
    """

    def __init__(self, log: pl.DataFrame, on_arrivals: Callable[[int], None] = lambda n: None) -> None:
        self._log = log
        self._on_arrivals = on_arrivals
        self._run_s: dict[int, float] = {}
        self._last = JobId(max(log["job"].to_list(), default=0))
        self.total = len(log)

    def arrivals(self) -> Iterator[Job]:
        """In order of arrival."""
        columns = self._log.select("job", "submit_s", "run_s", "processors", "estimate_s", "user")
        users = self._log["user"].unique().to_list()
        names = {user: f"user-{user}" if user >= 0 else ANYONE for user in users}
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
