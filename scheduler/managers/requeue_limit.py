"""A limit on how often a job is requeued after runs that failed, for every resource manager."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from scheduler import counted
from scheduler.managers.around import AroundManager
from scheduler.model import Completion, JobId, Loss
from scheduler.resource_manager import ResourceManager


class RequeueLimit(AroundManager):
    """Passes everything on to a resource manager, except the failure of a run whose job has already been
    requeued `most` times after earlier ones (Slurm's MaxBatchRequeue). Such a job is given up, and the
    manager gets the notice that the run ended as one that `failed`.

    Runs that were lost because something was down do not count.
    """

    def __init__(self, manager: ResourceManager, most: int, give_up: Callable[[JobId, str], None]) -> None:
        """`give_up` gets the job and the reason."""
        self._manager = manager
        self._most = most
        self._give_up = give_up
        self._n_failed: Counter[JobId] = Counter()

    def on_run_lost(self, loss: Loss) -> None:
        job = loss.failed_job
        if job is None:
            self._manager.on_run_lost(loss)
            return
        self._n_failed[job] += 1
        if self._n_failed[job] <= self._most:
            self._manager.on_run_lost(loss)
            return
        n = self._n_failed.pop(job)
        self._give_up(
            job, f"it failed {counted(n, 'time')}, and is requeued {counted(self._most, 'time')} at most"
        )
        self._manager.on_run_ended(Completion(loss.run, loss.lost_s, failed=True))
