"""Runs that are being stopped, and the jobs for which."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model import JobId, RunId


class Stops:
    """Runs that were ordered to stop and of which some are not over yet, by the job that needs their room.

    The runs stopped for one job are over together, with the last of them: a scheduler that is called in
    between cannot give a part of the room to another job.
    """

    def __init__(self) -> None:
        self.job_of: dict[RunId, JobId] = {}
        """For each run that is being stopped, the job that needs its room."""
        self._expected: dict[JobId, set[RunId]] = {}
        """By job: the runs that are not over."""
        self._held_back: dict[JobId, list[RunId]] = {}
        """By job: the runs that were stopped earlier than the last one."""

    @property
    def jobs(self) -> Iterable[JobId]:
        """The jobs for which runs are being stopped, in order of the first order for each."""
        return self._expected

    def order(self, job: JobId, runs: Iterable[RunId]) -> None:
        """These runs are to stop for a job for which none is being stopped."""
        self._expected[job], self._held_back[job] = set(runs), []
        self.job_of |= dict.fromkeys(runs, job)

    def over(self, run: RunId, is_stopped: bool) -> tuple[JobId | None, list[RunId]]:
        """A run was stopped, or is over for another reason.

        Returns the job for which all runs are over now, if any, and the stopped runs that are over now.
        """
        job = self.job_of.get(run)
        if job is None:
            return None, [run] if is_stopped else []
        expected, held_back = self._expected[job], self._held_back[job]
        expected.discard(run)
        if is_stopped:
            held_back.append(run)
        else:
            del self.job_of[run]
        if expected:
            return None, []
        del self._expected[job], self._held_back[job]
        for stopped in held_back:
            del self.job_of[stopped]
        return job, held_back
