"""What the controller calls the jobs of the world, also in the commands of operators and users."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from scheduler.model import Job, JobId
from sil.settings.log_events import AtSecond, Command, OfJob

FIRST_OF_ARRAY = 1
"""The index of the first job of an array."""


class KnownJobs:
    """The jobs that are submitted and not over.

    A job's `name` is what Slurm's commands call it: its number, or that of its array with its index. A job
    of an array has a number of its own only from when it is started or changed alone; some job of the array
    has that of the array.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self.names: dict[int, str] = {}
        """By number in the world; also of jobs that are over."""

    def submitted(self, number: int, jobs: Sequence[Job], is_array: bool = False) -> None:
        """One job, those of an array, or the components of a heterogeneous job, with consecutive numbers."""
        for k, job in enumerate(jobs):
            name = name_in(number, FIRST_OF_ARRAY + k) if is_array else str(number + k)
            self._jobs[name] = job
            self.names[job.id] = name

    def get(self, name: str) -> Job | None:
        return self._jobs.get(name)

    def over(self, job: JobId) -> None:
        del self._jobs[self.names[job]]

    def named(self, names: Iterable[str]) -> Iterator[tuple[str, Job]]:
        """Those of these jobs that are known."""
        return ((name, self._jobs[name]) for name in names if name in self._jobs)


def name_in(number: int, index: int) -> str:
    """Of the job of an array with this number."""
    return f"{number}_{index}"


def words_of(command: Command, jobs: KnownJobs, starts_at_s: float) -> list[str] | None:
    """None if the command is about a job that is over or was not accepted. Second 0 of the world is
    `starts_at_s` seconds since the epoch."""
    found: list[str] = []
    for word in command.words:
        match word:
            case OfJob(number=number):
                name = jobs.names.get(number)
                if name is None or jobs.get(name) is None:
                    return None
                found.append(name)
            case AtSecond(key=key, second=second):
                at = datetime.fromtimestamp(starts_at_s + second, UTC)
                found.append(f"{key}={at:%Y-%m-%dT%H:%M:%S}")
            case _:
                found.append(word)
    return found
