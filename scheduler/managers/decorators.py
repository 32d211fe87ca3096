"""What is put around any resource manager: the passing on of calls, and the limit of requeues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from scheduler import counted
from scheduler.model import Completion, Job, JobId, Loss, RunId
from scheduler.resource_manager import ResourceManager


class AroundManager(ResourceManager):
    """Passes every call on to another resource manager. Subclasses set `_manager` and override some calls."""

    _manager: ResourceManager

    @property
    def wants_round(self) -> bool:  # type: ignore[override]
        return self._manager.wants_round

    @property
    def wakes_at_s(self) -> float | None:  # type: ignore[override]
        return self._manager.wakes_at_s

    def why_waiting(self) -> Mapping[JobId, str]:
        return self._manager.why_waiting()

    def run_round(self) -> None:
        self._manager.run_round()

    def on_job_arrived(self, job: Job) -> str | None:
        return self._manager.on_job_arrived(job)

    def on_run_ended(self, completion: Completion) -> None:
        self._manager.on_run_ended(completion)

    def on_run_preempted(self, run_id: RunId) -> None:
        self._manager.on_run_preempted(run_id)

    def on_run_lost(self, loss: Loss) -> None:
        self._manager.on_run_lost(loss)

    def on_run_released(self, run: RunId) -> None:
        self._manager.on_run_released(run)

    def on_order_received(self, run: RunId) -> None:
        self._manager.on_order_received(run)

    def on_order_refused(self, run: RunId) -> None:
        self._manager.on_order_refused(run)

    def on_answer(self, machine: int) -> None:
        self._manager.on_answer(machine)

    def on_monitor_news(self) -> None:
        self._manager.on_monitor_news()

    def on_time_passed(self) -> None:
        self._manager.on_time_passed()


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
