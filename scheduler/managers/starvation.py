"""Which jobs were displaced so often that they wait in a higher queue than they were submitted to."""

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
        """The queue that the job was submitted to, or to which it was raised since."""
        return self._raised_to.get(job.id, job.queue)

    def note_displaced(self, job: Job) -> bool:
        """A run of `job` was displaced. Returns whether that raises the job."""
        self._times[job.id] += 1
        place = self._queues.index(self.queue_of(job))
        if self._raised_after is None or self._times[job.id] % self._raised_after or place == 0:
            return False
        self._raised_to[job.id] = self._queues[place - 1]
        return True

    def forget(self, job: Job) -> None:
        """The job is done."""
        del self._times[job.id]
        self._raised_to.pop(job.id, None)
