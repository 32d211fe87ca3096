"""Raises jobs that are displaced often to a higher queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from scheduler.model import Job, JobId


class Starvation:
    """Counts displacements, and raises a job to the next higher queue after every `raised_after` of them.

    `queues` are names from high to low; None = no job is ever raised. Source: future work in Collins and
    George 2001, section 6.
    """

    def __init__(self, queues: Sequence[str], raised_after: int | None) -> None:
        self._queues = queues
        self._raised_after = raised_after
        self._times: Counter[JobId] = Counter()
        self._raised_to: dict[JobId, str] = {}

    def queue_of(self, job: Job) -> str:
        """The job's current queue: the one it was submitted to, or raised to since."""
        return self._raised_to.get(job.id, job.queue)

    def note_displaced(self, job: Job) -> bool:
        """Count a displacement of `job`. Returns whether that raises the job."""
        self._times[job.id] += 1
        place = self._queues.index(self.queue_of(job))
        if self._raised_after is None or self._times[job.id] % self._raised_after or place == 0:
            return False
        self._raised_to[job.id] = self._queues[place - 1]
        return True

    def forget(self, job: Job) -> None:
        """Drop a completed job."""
        del self._times[job.id]
        self._raised_to.pop(job.id, None)
