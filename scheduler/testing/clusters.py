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


@dataclass(frozen=True)
class ClusterOutline:
    """What a policy knows of one cluster, with what is forecast for the job there."""

    n_jobs: int
    load_s: float
    transfer_s: float
    start_in_s: float
    run_s: float

    def state(self, k: int, is_home: bool, job: JobId, now_s: float) -> ClusterState:
        start_s = now_s + self.start_in_s
        forecast = partial(Forecast, job, start_s, start_s + self.run_s)
        transfer_s = 0.0 if is_home else self.transfer_s
        return ClusterState(f"cluster-{k}", is_home, self.n_jobs, self.load_s, transfer_s, forecast)


@dataclass(frozen=True)
class ClustersOutline(Outline[ClustersProblem]):
    """One job, and the clusters that accept it; `home` is the number of its own, if that is one of them."""

    now_s: float
    home: int
    clusters: tuple[ClusterOutline, ...]

    @property
    def summary(self) -> tuple[int, str]:
        return 1, f"{len(self.clusters)} clusters"

    @property
    def n_jobs(self) -> int:
        return 1

    def build(self, first_id: int) -> ClustersProblem:
        job = Job(JobId(first_id), "class-0", self.now_s)
        states = (of.state(k, k == self.home, job.id, self.now_s) for k, of in enumerate(self.clusters))
        return ClustersProblem(self.now_s, job, [*states])

    def state(self, problem: ClustersProblem) -> Mapping[str, object]:
        forecasts = [each.forecast() for each in problem.clusters]
        return {**super().state(problem), "n_places": problem.n_places, "forecasts": forecasts}

    def startable(self, problem: ClustersProblem) -> None:
        return None  # a job that is sent nowhere breaks a rule of its own


SECONDS = st.sampled_from([0.0, 0.0, 1.0, 60.0, 5000.0])  # with ties
CLUSTER = st.builds(
    ClusterOutline, st.integers(0, 3), SECONDS, SECONDS, st.sampled_from([0.0, 60.0, inf]), SECONDS
)


@st.composite
def clusters_outlines(draw: st.DrawFn) -> ClustersOutline:
    """A few clusters, some with equal loads, and some on which the job is predicted never to start."""
    clusters = draw(st.lists(CLUSTER, min_size=1, max_size=4))
    home = draw(st.integers(0, len(clusters)))
    return ClustersOutline(draw(st.sampled_from([0.0, 1234.5])), home, tuple(clusters))


def more_clusters() -> tuple[ClustersOutline, ...]:
    """Many jobs in a row, for more clusters than in the small problems."""
    one = [ClusterOutline(k % 7, 10.0 * k, 60.0, 30.0 * k, 100.0) for k in range(40)]
    return tuple(ClustersOutline(10.0 * n, n % 40, (*one[n:], *one[:n])) for n in range(40))
