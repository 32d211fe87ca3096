"""The contract for schedulers that start rigid jobs on free nodes, as a suite that plug-in authors run too.

from scheduler.free_nodes.contract import check_contract_on_free_nodes

def test_my_scheduler_keeps_the_contract():
    check_contract_on_free_nodes(MyScheduler)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from hypothesis import strategies as st

from scheduler.contract import Caller, Contract, Outlines, examine
from scheduler.free_nodes.problem import FreeNodes
from scheduler.free_nodes.rules import first_violation_on_free_nodes
from scheduler.mapping.rules import Violation
from scheduler.model import ON_NODES, Job, JobId, RunId, Schedule
from scheduler.ports import Scheduler
from scheduler.problem import Running, SchedulingProblem

MOST_JOBS = 1_000
"""Of one problem."""


def check_contract_on_free_nodes(
    make: Callable[[], Scheduler], *, examples: int = 200, call: Caller = lambda function: function()
) -> None:
    """As `scheduler.contract.check_contract`, with problems on free nodes. Raises ContractBroken."""
    examine(make, free_node_contract(), examples, call)


def free_node_contract() -> Contract:
    """For schedulers that give rigid jobs nodes of their own."""
    return Contract(free_node_outlines(), larger_free_node_outlines)


@dataclass(frozen=True)
class FreeNodeOutline:
    """A small problem on free nodes.

    `running` has for each run its size, and after how many seconds it is believed to end, which may be over;
    they hold the nodes of the lowest numbers, and those that are down come after them. `waiting` has for each
    job, in order, its size and its estimate.
    """

    n_nodes: int
    n_down: int
    running: tuple[tuple[int, float], ...]
    waiting: tuple[tuple[int, float], ...]
    now_s: float

    def __str__(self) -> str:
        if len(self.waiting) > 12:
            return f"a problem of {len(self.waiting)} jobs on {self.n_nodes} free nodes"
        return repr(self)

    def build(self) -> SchedulingProblem:
        nodes = FreeNodes(self.n_nodes)
        # Jobs of another problem are other jobs: a scheduler may remember those that it was asked about.
        number, n = MOST_JOBS * crc32(repr(self).encode()), len(self.running) + len(self.waiting)
        running: dict[RunId, Running] = {}
        for k, (size, ends_in_s) in enumerate(self.running):
            job, held = self._job(number + k, k / n, size, self.now_s), nodes.free.lowest(size)
            nodes.free.take(held)
            nodes.releases.add(self.now_s + ends_in_s, size, RunId(k))
            running[RunId(k)] = Running(job, ON_NODES, held, self.now_s + ends_in_s)
        if self.n_down:
            nodes.free.take(nodes.free.lowest(self.n_down))
        for k, (size, estimate_s) in enumerate(self.waiting, start=len(self.running)):
            nodes.waiting.add(self._job(number + k, k / n, size, estimate_s), estimate_s)
        return SchedulingProblem.on_free_nodes(self.now_s, nodes, running)

    def _job(self, number: int, when: float, size: int, estimate_s: float) -> Job:
        return Job(JobId(number), "rigid", when * self.now_s, n_tasks=size, estimate_s=estimate_s)

    def violation(self, schedule: Schedule) -> Violation | None:
        return first_violation_on_free_nodes(self.build(), schedule)

    def change(self, problem: SchedulingProblem) -> str | None:
        fresh = self.build()
        mine, theirs = problem.free_nodes, fresh.free_nodes
        parts = {
            "now_s": problem.now_s == fresh.now_s,
            "jobs": list(problem.jobs) == list(fresh.jobs),
            "running": dict(problem.running) == dict(fresh.running),
            "free": mine.free.intervals == theirs.free.intervals and mine.free.n == theirs.free.n,
            "waiting": np.array_equal(mine.waiting.table, theirs.waiting.table),
            "releases": np.array_equal(mine.releases.ends_s, theirs.releases.ends_s)
            and np.array_equal(mine.releases.sizes, theirs.releases.sizes),
        }
        return next((name for name, same in parts.items() if not same), None)

    def stuck(self, schedule: Schedule) -> JobId | None:
        n_up = self.n_nodes - self.n_down
        if self.running or schedule.placements or any(size > n_up for size, _ in self.waiting):
            return None  # while a job waits for a node that is down, others may wait for that job
        return self.build().jobs[0].id


@st.composite
def free_node_outlines(draw: st.DrawFn, most_down: int = 1) -> FreeNodeOutline:
    """A few nodes, and jobs of which each could run if all were free; with ties of sizes and times."""
    n_nodes = draw(st.integers(1, 8))
    n_down = draw(st.integers(0, min(most_down, n_nodes - 1)))
    now_s = draw(st.sampled_from([0.0, 10.0, 1234.5]))
    seconds = st.one_of(st.integers(1, 9).map(float), st.floats(1.0, 20.0, width=32))
    ends = st.one_of(seconds, seconds, seconds, st.sampled_from([0.0, -1.0] if now_s else [0.0]))
    left, running = n_nodes - n_down, []
    while left and draw(st.booleans()):
        size = draw(st.integers(1, left))
        running.append((size, draw(ends)))
        left -= size
    job = st.tuples(st.integers(1, n_nodes), seconds)
    waiting = draw(st.lists(job, min_size=1, max_size=10))
    return FreeNodeOutline(n_nodes, n_down, tuple(running), tuple(waiting), now_s)


def larger_free_node_outlines() -> Outlines:
    """Problems of a size at which schedulers for small cases only would fail."""
    luck = np.random.default_rng(1)
    outlines = []
    for n_jobs, n_nodes in ((300, 64), (40, 4096), (600, 16)):
        most = int(np.log2(n_nodes))
        sizes = 2 ** luck.integers(0, most + 1, n_jobs)
        estimates_s = luck.choice([60.0, 300.0, 3_600.0, 7_200.0], n_jobs)
        ends_s = luck.choice([0.5, 60.0, 100.0, 3_600.0], most)
        running = tuple((n_nodes // 2 ** (k + 2) or 1, float(end_s)) for k, end_s in enumerate(ends_s))
        waiting = tuple(zip(sizes.tolist(), estimates_s.tolist(), strict=True))
        outlines.append(FreeNodeOutline(n_nodes, 0, running, waiting, 100_000.0))
    return tuple(outlines)
