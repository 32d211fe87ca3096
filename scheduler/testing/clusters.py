"""The contract for policies of a meta-scheduler, which send jobs to clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import inf

from scheduler.meta_scheduling.policies import ClustersProblem, ClusterState
from scheduler.model import Job, JobId
from scheduler.testing.examination import Outline, st
from scheduler.time_shared.forecast import Forecast

Known = tuple[int, float, float, float, float, float]
"""Of one cluster: its jobs, its load, the transfer times, and the predicted start and end."""


@dataclass(frozen=True)
class ClustersOutline(Outline[ClustersProblem]):
    """One job, and the clusters that accept it; `home` is the number of its own, if that is one of them."""

    now_s: float
    home: int
    clusters: tuple[Known, ...]

    @property
    def summary(self) -> tuple[int, str]:
        return 1, f"{len(self.clusters)} clusters"

    @property
    def n_jobs(self) -> int:
        return 1

    def build(self, first_id: int) -> ClustersProblem:
        job = Job(JobId(first_id), "class-0", self.now_s)
        states = [
            ClusterState(f"cluster-{k}", k == self.home, *of[:4], partial(Forecast, job.id, *of[4:]))
            for k, of in enumerate(self.clusters)
        ]
        return ClustersProblem(self.now_s, job, states)

    def state(self, problem: ClustersProblem) -> Mapping[str, object]:
        return {**super().state(problem), "forecasts": [each.forecast() for each in problem.clusters]}

    def startable(self, problem: ClustersProblem) -> None:
        return None  # a job that is sent nowhere breaks a rule of its own


SECONDS = st.sampled_from([0.0, 0.0, 1.0, 60.0, 5000.0])  # with ties
TIMES_S = st.sampled_from([2000.0, 2060.0, inf])
CLUSTER = st.tuples(st.integers(0, 3), SECONDS, SECONDS, SECONDS, TIMES_S, TIMES_S)


@st.composite
def clusters_outlines(draw: st.DrawFn) -> ClustersOutline:
    """A few clusters, some with equal loads, and some on which the job is predicted never to start."""
    clusters = draw(st.lists(CLUSTER, min_size=1, max_size=4))
    return ClustersOutline(draw(st.sampled_from([0.0, 1234.5])), draw(st.integers(0, 4)), tuple(clusters))


def more_clusters() -> tuple[ClustersOutline, ...]:
    """Many jobs in a row, for more clusters than in the small problems."""
    known = [(k % 7, 10.0 * k, 60.0, 6.0, 1000.0 * k, 2000.0 * k) for k in range(40)]
    return tuple(ClustersOutline(10.0 * n, n, (*known[n:], *known[:n])) for n in range(40))
