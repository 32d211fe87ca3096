"""Schedulers and a resource manager that decide well, for runs on both sides."""

from __future__ import annotations

import os
from typing import Any

from scheduler.free_nodes.rigid import Rigid
from scheduler.mapping.immediate import Mct, Olb
from scheduler.model import DispatchOrder, Job, RunId
from scheduler.resource_manager import OnMachines, ResourceManager
from scheduler.time_shared.loras import Loras
from tests.hostile import good_answer

BORN_IN = os.getpid()


class Maps(Mct):
    pass


class MapsOtherwise(Olb):
    pass


class Starts(Rigid):
    pass


class Shares(Loras):
    pass


class StartsPartsOfNodes:
    """EASY where jobs request parts of nodes."""

    def __init__(self) -> None:
        self._easy = Rigid(backfilling="easy", selection="best_fit")

    def schedule(self, problem: Any) -> Any:
        return self._easy.schedule(problem)


class SaysWhereItRuns:
    """All jobs wait, for a reason that tells its process and how many decisions this has made."""

    n_decisions = 0

    def schedule(self, problem: Any) -> Any:
        type(self).n_decisions += 1
        answer = good_answer(problem)
        process = f"process {os.getpid()} born in {BORN_IN}, decision {self.n_decisions}"
        return answer._replace(wait_reasons=dict.fromkeys(answer.wait_reasons, process))


class Manager(ResourceManager):
    """Each job alone on the first machine, in order of arrival."""

    def __init__(self, ports: OnMachines) -> None:
        self._ports = ports
        self._waiting: list[Job] = []
        self._runs = 0
        self._is_busy = False

    def on_job_arrived(self, job: Job) -> str | None:
        if job.id % 5 == 4:
            return f"job {job.id} is not wanted"
        self._waiting.append(job)
        self.wants_round = True
        return None

    def on_run_ended(self, completion: Any) -> None:
        self._is_busy = False
        self.wants_round = True

    def run_round(self) -> None:
        self.wants_round = False
        if self._waiting and not self._is_busy:
            self._is_busy = True
            self._runs += 1
            job = self._waiting.pop(0)
            self._ports.dispatcher.dispatch(DispatchOrder(RunId(self._runs), job, 0, (0,), 1.0))
