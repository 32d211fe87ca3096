"""What stands around a resource manager and changes some of its calls."""

from __future__ import annotations

from collections.abc import Mapping

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
