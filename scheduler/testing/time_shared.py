"""The contract for schedulers that start jobs on time-shared nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from scheduler.model import ON_NODES, Job, JobId, RunId, Start
from scheduler.problem import Running
from scheduler.testing.examination import Outline, exactly, st
from scheduler.time_shared.loras import Loras
from scheduler.time_shared.problem import ReportedLoad, SystemState, TimeSharedProblem
from scheduler.time_shared.social_contract import Requirement, SocialContract

NODE_MB = 512.0


@dataclass(frozen=True)
class TimeSharedOutline(Outline[TimeSharedProblem]):
    """A small problem on time-shared nodes.

    The first `n_running` jobs, as many of them as fit, run already: FCFS started them on the least loaded
    nodes.
    """

    n_nodes: int
    contract: SocialContract
    local: tuple[ReportedLoad, ...]
    jobs: tuple[Requirement, ...]
    n_running: int
    now_s: float

    @property
    def summary(self) -> tuple[int, str]:
        return len(self.jobs), f"{self.n_nodes} time-shared nodes"

    @property
    def n_jobs(self) -> int:
        return len(self.jobs)

    def build(self, first_id: int) -> TimeSharedProblem:
        state = SystemState([NODE_MB] * self.n_nodes, self.contract)
        for n, load in enumerate(self.local):
            state.set_local(n, load)
        running: dict[RunId, Running] = {}
        for i, requirement in enumerate(self.jobs):
            arrival_s = self.now_s * i / len(self.jobs)
            job = Job(JobId(first_id + i), f"class-{i}", arrival_s, n_tasks=requirement.n_tasks)
            state.add(job, requirement)
            if i + 1 == self.n_running:
                self._start_some(state, running)
        return TimeSharedProblem(self.now_s, state.waiting, state.view(), running)

    def _start_some(self, state: SystemState, running: dict[RunId, Running]) -> None:
        waiting = list(state.waiting)
        for k, start in enumerate(_first_fit(TimeSharedProblem(self.now_s, waiting, state.view()))):
            job = waiting[start.job]
            state.start(job, start.nodes, self.now_s / 2)
            state.measured(job.id, 0.25 * state.requirement(job.id).cpu_s, self.now_s)
            running[RunId(k)] = Running(job, ON_NODES, start.nodes, start.completion_s)

    def state(self, problem: TimeSharedProblem) -> Mapping[str, object]:
        jobs = problem.shared_nodes.jobs
        return {**super().state(problem), "jobs.used_s": jobs.used_s, "jobs.run_s": jobs.run_s}

    def startable(self, problem: TimeSharedProblem) -> JobId | None:
        starts = () if problem.running else _first_fit(problem)
        return problem.jobs[starts[0].job].id if starts else None


def _first_fit(problem: TimeSharedProblem) -> Sequence[Start]:
    return Loras(selection="first_fit").schedule(problem).starts


LOCAL_LOAD = st.sampled_from(
    [ReportedLoad(), ReportedLoad(), ReportedLoad(1.0, 0.3, 150.0, True), ReportedLoad(0.0, 0.1, 300.0, True)]
)
CPU_S = st.one_of(st.integers(1, 50).map(float), st.floats(0.5, 100.0, width=32))


@cache
def _jobs(n_nodes: int) -> st.SearchStrategy[list[Requirement]]:
    cpu, memory_mb = st.sampled_from([0.3, 0.5, 0.72, 0.9]), st.sampled_from([0.0, 60.0, 200.0])
    requirement = st.builds(Requirement, st.integers(1, n_nodes), cpu, memory_mb, CPU_S)
    return st.lists(requirement, min_size=1, max_size=8)


@st.composite
def time_shared_outlines(draw: st.DrawFn) -> TimeSharedOutline:
    """A few nodes, some with local users, and jobs of which each could run on the empty cluster."""
    n_nodes = draw(st.integers(1, 5))
    contract = SocialContract(0.5, draw(st.integers(1, 3)), draw(st.sampled_from([1.0, 1.5, np.inf])))
    jobs = draw(_jobs(n_nodes))
    local = draw(exactly(n_nodes, LOCAL_LOAD))
    now_s = draw(st.sampled_from([0.0, 10.0, 1234.5]))
    n_running = draw(st.integers(0, len(jobs) - 1))
    return TimeSharedOutline(n_nodes, contract, tuple(local), tuple(jobs), n_running, now_s)


def larger_on_shared_nodes() -> tuple[TimeSharedOutline, ...]:
    rng = np.random.default_rng(1)
    outlines = []
    for n_jobs, n_nodes in ((40, 16), (8, 64), (120, 8)):
        sizes = [k for k in (1, 2, 4, 8) if k <= n_nodes]
        jobs = tuple(
            Requirement(
                int(rng.choice(sizes)),
                float(rng.choice([0.3, 0.7, 0.9])),
                float(rng.choice([20.0, 60.0, 115.0])),
                float(rng.uniform(5.0, 500.0)),
            )
            for _ in range(n_jobs)
        )
        local = tuple(
            ReportedLoad(1.0, 0.2, 150.0, True) if rng.random() < 0.3 else ReportedLoad()
            for _ in range(n_nodes)
        )
        outlines.append(TimeSharedOutline(n_nodes, SocialContract(0.5, 4), local, jobs, n_jobs // 2, 100.0))
    return tuple(outlines)
