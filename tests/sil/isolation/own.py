"""Schedulers and a resource manager that decide well, for runs on both sides."""

from __future__ import annotations

import os
from typing import Any

from scheduler.free_nodes.rigid import Rigid
from scheduler.mapping.immediate import Mct, Olb
from scheduler.model import Job
from scheduler.node_set import NodeSet
from scheduler.time_shared.loras import Loras
from tests.hostile import good_answer
from tests.one_at_a_time import OneAtATime

BORN_IN = os.getpid()


class Maps(Mct):
    pass


class MapsOtherwise(Olb):
    pass


class Starts(Rigid):
    pass


class StartsOnSetsWithoutNodes(Rigid):
    def schedule(self, problem: Any) -> Any:
        good = super().schedule(problem)
        empty = [start._replace(nodes=NodeSet((), len(start.nodes))) for start in good.starts]
        return good._replace(starts=tuple(empty))


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


class Manager(OneAtATime):
    """It refuses some jobs."""

    def on_job_arrived(self, job: Job) -> str | None:
        if job.id % 5 == 4:
            return f"job {job.id} is not wanted"
        return super().on_job_arrived(job)
