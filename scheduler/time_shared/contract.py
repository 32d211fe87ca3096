"""The contract for schedulers that start jobs on shared nodes, as a suite that plug-in authors run too.

from scheduler.time_shared.contract import check_contract_on_nodes

def test_my_scheduler_keeps_the_contract():
    check_contract_on_nodes(MyScheduler)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from scheduler.contract import Caller, Contract, Outlines, examine
from scheduler.mapping.rules import Violation
from scheduler.model import Job, JobId, RunId, Schedule
from scheduler.ports import Scheduler
from scheduler.problem import Running, SchedulingProblem
from scheduler.time_shared.requirement import Requirement
from scheduler.time_shared.rules import first_violation_on_nodes
from scheduler.time_shared.scheduler import Loras
from scheduler.time_shared.social_contract import SocialContract
from scheduler.time_shared.system import LocalLoad, SystemState

NODE_MB = 512.0


def check_contract_on_nodes(
    make: Callable[[], Scheduler], *, examples: int = 200, call: Caller = lambda function: function()
) -> None:
    """As `scheduler.contract.check_contract`, with problems on shared nodes. Raises ContractBroken."""
    examine(make, node_contract(), examples, call)


def node_contract() -> Contract:
    """For schedulers that start jobs on shared nodes."""
    return Contract(node_outlines(), larger_node_outlines)


@dataclass(frozen=True)
class NodeOutline:
    """A small problem on shared nodes.

    The first `n_running` jobs, as many of them as fit, have been started by FCFS on the least loaded nodes.
    """

    n_nodes: int
    contract: SocialContract
    local: tuple[LocalLoad, ...]
    jobs: tuple[Requirement, ...]
    n_running: int
    now_s: float

    def __str__(self) -> str:
        if len(self.jobs) > 12:
            return f"a problem of {len(self.jobs)} jobs on {self.n_nodes} shared nodes"
        return repr(self)

    def build(self) -> SchedulingProblem:
        state = SystemState([NODE_MB] * self.n_nodes, self.contract)
        for n, load in enumerate(self.local):
            state.tell_local(n, load)
        jobs: dict[JobId, Job] = {}
        running: dict[RunId, Running] = {}
        for i, requirement in enumerate(self.jobs):
            job = jobs[JobId(100 + i)] = Job(
                JobId(100 + i), f"class-{i}", self.now_s * i / len(self.jobs), n_tasks=requirement.n_tasks
            )
            state.add(job, requirement)
            if i + 1 == self.n_running:
                self._start_some(state, jobs, running)
        waiting = [jobs[number] for number in state.waiting]
        return SchedulingProblem.on_shared_nodes(self.now_s, waiting, state.view(), running)

    def _start_some(self, state: SystemState, jobs: dict[JobId, Job], running: dict[RunId, Running]) -> None:
        waiting = [jobs[number] for number in state.waiting]
        problem = SchedulingProblem.on_shared_nodes(self.now_s, waiting, state.view())
        for k, placement in enumerate(Loras(selection="first_fit").schedule(problem).placements):
            job = waiting[placement.job]
            state.start(job, placement.nodes, self.now_s / 2)
            state.measured(job.id, 0.25 * state.requirement(job.id).cpu_s, self.now_s)
            running[RunId(k)] = Running(job, -1, placement.nodes, placement.completion_s)

    def violation(self, schedule: Schedule) -> Violation | None:
        return first_violation_on_nodes(self.build(), schedule)

    def change(self, problem: SchedulingProblem) -> str | None:
        fresh = self.build()
        mine, theirs = problem.shared_nodes, fresh.shared_nodes
        columns = (*mine.nodes._fields, *mine.jobs._fields)
        before = (*theirs.nodes, *theirs.jobs)
        parts = {
            "now_s": problem.now_s == fresh.now_s,
            "jobs": list(problem.jobs) == list(fresh.jobs),
            "running": dict(problem.running) == dict(fresh.running),
            "who waits": np.array_equal(mine.waiting, theirs.waiting),
            "who runs": np.array_equal(mine.running, theirs.running),
            **{
                name: np.array_equal(now, then)
                for name, now, then in zip(columns, (*mine.nodes, *mine.jobs), before, strict=True)
            },
        }
        return next((name for name, same in parts.items() if not same), None)

    def stuck(self, schedule: Schedule) -> JobId | None:
        problem = self.build()
        if problem.running or schedule.placements:
            return None
        for placement in Loras(selection="first_fit").schedule(problem).placements:
            return problem.jobs[placement.job].id
        return None


@st.composite
def node_outlines(draw: st.DrawFn) -> NodeOutline:
    """A few nodes, some with local users, and jobs of which each could run on the empty cluster."""
    n_nodes = draw(st.integers(1, 5))
    contract = SocialContract(0.5, draw(st.integers(1, 3)), draw(st.sampled_from([1.0, 1.5, np.inf])))
    users = st.sampled_from(
        [LocalLoad(), LocalLoad(), LocalLoad(1.0, 0.3, 150.0, True), LocalLoad(0.0, 0.1, 300.0, True)]
    )
    requirement = st.builds(
        Requirement,
        st.integers(1, n_nodes),
        st.sampled_from([0.3, 0.5, 0.72, 0.9]),
        st.sampled_from([0.0, 60.0, 200.0]),
        st.one_of(st.integers(1, 50).map(float), st.floats(0.5, 100.0, width=32)),
    )
    jobs = draw(st.lists(requirement, min_size=1, max_size=8))
    local = draw(st.lists(users, min_size=n_nodes, max_size=n_nodes))
    now_s = draw(st.sampled_from([0.0, 10.0, 1234.5]))
    n_running = draw(st.integers(0, len(jobs) - 1))
    return NodeOutline(n_nodes, contract, tuple(local), tuple(jobs), n_running, now_s)


def larger_node_outlines() -> Outlines:
    """Problems of a size at which schedulers for small cases only would fail."""
    luck = np.random.default_rng(1)
    outlines = []
    for n_jobs, n_nodes in ((40, 16), (8, 64), (120, 8)):
        sizes = [k for k in (1, 2, 4, 8) if k <= n_nodes]
        jobs = tuple(
            Requirement(
                int(luck.choice(sizes)),
                float(luck.choice([0.3, 0.7, 0.9])),
                float(luck.choice([20.0, 60.0, 115.0])),
                float(luck.uniform(5.0, 500.0)),
            )
            for _ in range(n_jobs)
        )
        local = tuple(
            LocalLoad(1.0, 0.2, 150.0, True) if luck.random() < 0.3 else LocalLoad() for _ in range(n_nodes)
        )
        outlines.append(NodeOutline(n_nodes, SocialContract(0.5, 4), local, jobs, n_jobs // 2, 100.0))
    return tuple(outlines)
