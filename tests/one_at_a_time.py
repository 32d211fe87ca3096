"""The simplest resource manager, for tests that change something of it."""

from __future__ import annotations

from itertools import count
from typing import Any

from scheduler.model import ON_NODES, DispatchOrder, Job, RunId
from scheduler.resource_manager import OnMachines, ResourceManager


class OneAtATime(ResourceManager):
    """Each job alone, in order of arrival, on the first machine or the first nodes."""

    first_run = 0

    def __init__(self, ports: Any) -> None:
        self.ports = ports
        self.waiting: list[Job] = []
        self.runs = count(self.first_run)
        self.running: Any = None

    def on_job_arrived(self, job: Job) -> Any:
        self.waiting.append(job)
        self.wants_round = True
        return None

    def on_run_ended(self, completion: Any) -> None:
        self.running = None
        self.wants_round = True

    def run_round(self) -> None:
        self.wants_round = False
        if self.running is None and self.waiting:
            self.start(self.waiting.pop(0))

    def start(self, job: Job) -> None:
        self.running = RunId(next(self.runs))
        self.ports.dispatcher.dispatch(self.order(job))

    def order(self, job: Job) -> DispatchOrder:
        resource, where = ON_NODES, range(job.n_tasks)
        if isinstance(self.ports, OnMachines):
            resource, where = 0, range(1)
        return DispatchOrder(self.running, job, resource, where, 1.0)
