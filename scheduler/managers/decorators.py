"""What is put around any resource manager: the passing on of calls, and the limit of requeues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from scheduler.messages import counted
from scheduler.model import JobId
from scheduler.notices import Notice, RunEnded, RunLost
from scheduler.resource_manager import Manager


class ManagerDecorator(Manager):
    """Passes everything on to another manager. Subclasses set `_manager`, and override what differs."""

    _manager: Manager

    @property
    def wants_round(self) -> bool:  # type: ignore[override]
        return self._manager.wants_round

    @property
    def wakes_at_s(self) -> float | None:  # type: ignore[override]
        return self._manager.wakes_at_s

    def handle(self, notice: Notice) -> str | None:
        return self._manager.handle(notice)

    def run_round(self) -> None:
        self._manager.run_round()

    def why_waiting(self) -> Mapping[JobId, str]:
        return self._manager.why_waiting()


class RequeueLimit(ManagerDecorator):
    """Passes everything on to a resource manager, except the failure of a run whose job has already been
    requeued `most` times after earlier ones (Slurm's MaxBatchRequeue). Such a job is given up, and the
    manager gets the notice that the run ended as one that `failed`.

    Runs that were lost because something was down do not count.
    """

    def __init__(self, manager: Manager, most: int, give_up: Callable[[JobId, str], None]) -> None:
        """`give_up` gets the job and the reason."""
        self._manager = manager
        self._most = most
        self._give_up = give_up
        self._n_failed: Counter[JobId] = Counter()

    def handle(self, notice: Notice) -> str | None:
        if isinstance(notice, RunLost) and (job := notice.failed_job) is not None:
            self._n_failed[job] += 1
            if self._n_failed[job] > self._most:
                n, most = self._n_failed.pop(job), self._most
                why = f"it failed {counted(n, 'time')}, and is requeued {counted(most, 'time')} at most"
                self._give_up(job, why)
                notice = RunEnded(notice.run, notice.lost_s, failed=True)
        return self._manager.handle(notice)
