"""The contract for schedulers that start rigid jobs on free nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from scheduler.free_nodes.identical_nodes import FreeNodes
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.model import ON_NODES, Job, JobId, RunId, Start
from scheduler.problem import Running
from scheduler.rules import Kind
from scheduler.testing.drawing import st
from scheduler.testing.examination import Contract, Outline, Outlines


@dataclass(frozen=True)
class FreeNodesOutline:
    """A small problem on free nodes.

    `running` has for each run its size, and in how many seconds it is expected to end, which may be past;
    these runs hold the nodes with the lowest numbers, and the nodes that are down come after them. `waiting`
    has for each job, in queue order, its size and its estimate.
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

    @property
    def n_jobs(self) -> int:
        return len(self.waiting) + len(self.running)

    def build(self, first_id: int) -> FreeNodesProblem:
        nodes = FreeNodes(self.n_nodes)
        n_waiting, n_running, n = len(self.waiting), len(self.running), self.n_jobs
        running: dict[RunId, Running] = {}
        for k, (size, ends_in_s) in enumerate(self.running):
            job, held = self._job(first_id + n_waiting + k, k / n, size, self.now_s), nodes.free.lowest(size)
            end_s = self.now_s + ends_in_s
            nodes.waiting.add(job, self.now_s)
            nodes.start(RunId(k), job.id, Start(0, held, end_s), self.now_s)
            running[RunId(k)] = Running(job, ON_NODES, held, end_s)
        for node in nodes.free.lowest(self.n_down):
            nodes.set_available(node, False)
        for i, (size, estimate_s) in enumerate(self.waiting):
            nodes.waiting.add(self._job(first_id + i, (n_running + i) / n, size, estimate_s), estimate_s)
        return FreeNodesProblem(self.now_s, nodes, running)

    def _job(self, number: int, when: float, size: int, estimate_s: float) -> Job:
        return Job(JobId(number), "rigid", when * self.now_s, n_tasks=size, estimate_s=estimate_s)


# Strategies are made once, since making one costs more than drawing from it.

SECONDS = st.one_of(st.integers(1, 9).map(float), st.floats(1.0, 20.0, width=32))
"""Estimates of waiting jobs."""


@cache
def ends_s(now_s: float) -> st.SearchStrategy[float]:
    """In how many seconds a run is expected to end, which may be past."""
    return st.one_of(SECONDS, SECONDS, SECONDS, st.sampled_from([0.0, -1.0] if now_s else [0.0]))


@cache
def _waiting(n_nodes: int) -> st.SearchStrategy[list[tuple[int, float]]]:
    return st.lists(st.tuples(st.integers(1, n_nodes), SECONDS), min_size=1, max_size=10)


@st.composite
def free_nodes_outlines(draw: st.DrawFn, most_down: int = 1) -> FreeNodesOutline:
    """A few nodes, and jobs of which each could run if all were free; with ties of sizes and times."""
    n_nodes = draw(st.integers(1, 8))
    n_down = draw(st.integers(0, min(most_down, n_nodes - 1)))
    now_s = draw(st.sampled_from([0.0, 10.0, 1234.5]))
    left, running = n_nodes - n_down, []
    while left and draw(st.booleans()):
        size = draw(st.integers(1, left))
        running.append((size, draw(ends_s(now_s))))
        left -= size
    return FreeNodesOutline(n_nodes, n_down, tuple(running), tuple(draw(_waiting(n_nodes))), now_s)


def larger_outlines() -> Outlines:
    """Problems of a size at which schedulers for small cases only would fail."""
    rng = np.random.default_rng(1)
    outlines: list[Outline] = []
    for n_jobs, n_nodes in ((300, 64), (40, 4096), (600, 16)):
        most = int(np.log2(n_nodes))
        sizes = 2 ** rng.integers(0, most + 1, n_jobs)
        estimates_s = rng.choice([60.0, 300.0, 3_600.0, 7_200.0], n_jobs)
        ends_s = rng.choice([0.5, 60.0, 100.0, 3_600.0], most)
        running = tuple((n_nodes // 2 ** (k + 2) or 1, float(end_s)) for k, end_s in enumerate(ends_s))
        waiting = tuple(zip(sizes.tolist(), estimates_s.tolist(), strict=True))
        outlines.append(FreeNodesOutline(n_nodes, 0, running, waiting, 100_000.0))
    return tuple(outlines)


class FreeNodesContract(Contract[FreeNodesProblem]):
    kind = Kind.FREE_NODES

    outlines = free_nodes_outlines()
    larger = larger_outlines()

    def startable(self, problem: FreeNodesProblem) -> JobId | None:
        n_up = problem.free_nodes.free.n
        if problem.running or any(job.n_tasks > n_up for job in problem.jobs):
            return None  # while a job waits for a node that is down, others may wait for that job
        return problem.jobs[0].id
