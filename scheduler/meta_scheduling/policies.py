"""What a meta-scheduler is asked: in the queues of which clusters a job is to wait; and built-in policies.
Ties: the shorter transfer, then the cluster listed first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from scheduler.model import Job, NodeSchedule, Start
from scheduler.problem import SchedulingProblem, first_violation
from scheduler.rules import KNOWN_NODES, NO_JOB_FORGOTTEN, Kind, Violation
from scheduler.time_shared.forecast import Forecast


class ClusterState(NamedTuple):
    """One of the clusters to which a job may be sent.

    * `name`, `is_home`: its name, and whether the job was submitted there.
    * `n_jobs`: its unfinished jobs, those on their way to it included.
    * `load_s`: how long these would occupy all of it, by their estimates.
    * `transfer_s`: the seconds until the data of the job would be there.
    * `forecast()`: its start and end there, if no other job came later: by the cluster's own policy, run
      forward with estimates; on time-shared nodes, by CISNE's predictor.
    """

    name: str
    is_home: bool
    n_jobs: int
    load_s: float
    transfer_s: float
    forecast: Callable[[], Forecast]


class ClustersProblem(SchedulingProblem):
    """One job, which is submitted now, and the `clusters` that would accept it, which take the place of nodes
    in the answer."""

    kind = Kind.CLUSTERS

    def __init__(self, now_s: float, job: Job, clusters: Sequence[ClusterState]) -> None:
        super().__init__(now_s, [job], None, len(clusters))
        self.clusters = tuple(clusters)

    def sent_to(self, *clusters: int) -> NodeSchedule:
        """The answer that the job joins the queues of these, by position, and runs on the first to start
        it."""
        return NodeSchedule((Start(0, clusters, self.now_s + 1.0),))

    def arrays(self) -> Mapping[str, Any]:
        return {"clusters": [each[1:5] for each in self.clusters], "n_places": self.n_places}

    def violation(self, answer: object) -> Violation | None:
        job, found = self.jobs[0].id, first_violation(self, answer, lambda i, job, start, nodes: None)
        if found is None and not sum(len(start.nodes) for start in getattr(answer, "starts", ())):
            return Violation(NO_JOB_FORGOTTEN, job, f"job {job} is sent to no cluster")
        if found is not None and found.rule == KNOWN_NODES:
            return replace(found, message=f"job {job} is sent to a cluster that is none of {self.n_places}")
        return found


COSTS: Mapping[str, Callable[[ClusterState], float]] = {
    "distance": lambda cluster: not cluster.is_home,
    "jobs": lambda cluster: cluster.n_jobs,
    "load": lambda cluster: cluster.load_s,
    "start": lambda cluster: cluster.forecast().start_s or 0.0,
    "end": lambda cluster: cluster.forecast().end_s,
}


class Ranked:
    """Each job to the clusters with the least cost: one, or copies to several.

    `distance` keeps jobs where they are submitted; `jobs` joins the shortest queue; `load` is in seconds;
    `start` and `end` are predicted, which takes some decisions of each cluster's scheduler. Sources:
    Subramani et al., HPDC 2002 (load); Sabin et al., JSSPP 2003 (start); Hanzich et al. 2006 (end); Casanova,
    "Benefits and drawbacks of redundant batch requests", 2007 (copies).
    """

    def __init__(self, cost: str = "load", copies: int = 1) -> None:
        if cost not in COSTS or copies < 1:
            raise ValueError(f"cost is one of {', '.join(COSTS)}, not '{cost}', and copies at least 1")
        self._cost, self._copies = COSTS[cost], copies

    def schedule(self, problem: ClustersProblem) -> NodeSchedule:
        costs = [(self._cost(each), each.transfer_s, k) for k, each in enumerate(problem.clusters)]
        return problem.sent_to(*(k for *_, k in sorted(costs)[: self._copies]))


class RoundRobin:
    """Each cluster in turn, whatever its load."""

    def __init__(self) -> None:
        self._n = -1

    def schedule(self, problem: ClustersProblem) -> NodeSchedule:
        self._n += 1
        return problem.sent_to(self._n % problem.n_places)
