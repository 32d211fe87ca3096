"""The contracts for schedulers that start rigid jobs on free nodes: identical ones, or parts of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import ceil

import numpy as np

from scheduler.free_nodes.consumable_nodes import ConsumableNodes
from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem
from scheduler.free_nodes.identical_nodes import FreeNodes
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.model import ANYONE, ON_NODES, Job, JobId, RunId, Start
from scheduler.node_request import Gpus, Node, Request
from scheduler.node_resources.core.codes import NODE
from scheduler.node_set import NodeSet
from scheduler.priority.claims import Claims
from scheduler.priority.policy import ROOT, Association, ResourceLimits, SitePolicy
from scheduler.problem import Running
from scheduler.testing.examination import Outline, P, st


class RigidOutline(Outline[P]):
    """`running` has for each run its request, and in how many seconds it is expected to end, which may be
    past. `waiting` has for each job, in queue order, its request and its estimate."""

    n_down: int
    running: tuple[tuple[int, float], ...] | tuple[tuple[Request, float], ...]
    waiting: tuple[tuple[int, float], ...] | tuple[tuple[Request, float], ...]
    now_s: float

    @property
    def n_jobs(self) -> int:
        return len(self.waiting) + len(self.running)

    def jobs(self, first_id: int) -> list[Job]:
        """The jobs that run, then those that wait, in order of arrival. The waiting ones have the lowest
        numbers."""
        n_running, n = len(self.running), self.n_jobs
        jobs = []
        for k, (request, time_s) in enumerate((*self.running, *self.waiting)):
            number = first_id + (k + len(self.waiting) if k < n_running else k - n_running)
            estimate_s, arrival_s = self.now_s if k < n_running else time_s, k / n * self.now_s
            job = Job(JobId(number), "rigid", arrival_s, estimate_s=estimate_s)
            if isinstance(request, Request):
                jobs.append(job._replace(n_tasks=request.chunks, request=request))
            else:
                jobs.append(job._replace(n_tasks=request))
        return jobs


@dataclass(frozen=True)
class FreeNodesOutline(RigidOutline[FreeNodesProblem]):
    """A small problem on identical nodes, of which a job requests a number.

    The runs hold the nodes with the lowest numbers, and the nodes that are down come after them.
    """

    n_nodes: int
    n_down: int
    running: tuple[tuple[int, float], ...]
    waiting: tuple[tuple[int, float], ...]
    now_s: float

    @property
    def summary(self) -> tuple[int, str]:
        return len(self.waiting), f"{self.n_nodes} free nodes"

    def build(self, first_id: int) -> FreeNodesProblem:
        nodes, jobs, running = FreeNodes(self.n_nodes), self.jobs(first_id), dict[RunId, Running]()
        for run, (job, (size, ends_in_s)) in enumerate(zip(jobs, self.running, strict=False)):
            held, end_s = nodes.free.lowest(size), self.now_s + ends_in_s
            nodes.wait(job, None, self.now_s)
            nodes.start(RunId(run), job.id, Start(0, held, end_s), self.now_s)
            running[RunId(run)] = Running(job, ON_NODES, held, end_s)
        for node in nodes.free.lowest(self.n_down):
            nodes.set_available(node, False)
        for job, (_, estimate_s) in zip(jobs[len(self.running) :], self.waiting, strict=True):
            nodes.wait(job, None, estimate_s)
        return FreeNodesProblem(self.now_s, nodes, running)

    def startable(self, problem: FreeNodesProblem) -> JobId | None:
        if problem.running or any(job.n_tasks > problem.free_nodes.free.n for job in problem.jobs):
            return None  # while a job waits for a node that is down, others may wait for that job
        return problem.jobs[0].id


@dataclass(frozen=True)
class ConsumableOutline(RigidOutline[ConsumableNodesProblem]):
    """A small problem on nodes of which the first `n_down` are down.

    The runs hold the first nodes that fit, and those that do not fit are left out. `site_resources` are those
    of the whole site.
    """

    nodes: tuple[Node, ...]
    n_down: int
    running: tuple[tuple[Request, float], ...]
    waiting: tuple[tuple[Request, float], ...]
    now_s: float
    site_resources: Mapping[str, int]
    most_cpus: int | None = None
    """A limit of the policy: how many CPUs may be in use."""
    reserved_in_s: float | None = None
    """When a reservation of the last node begins, for jobs that are not here."""

    @property
    def summary(self) -> tuple[int, str]:
        return len(self.waiting), f"{len(self.nodes)} nodes"

    def build(self, first_id: int) -> ConsumableNodesProblem:
        claims, jobs = None, self.jobs(first_id)
        if self.most_cpus is not None:
            limit = Association(ROOT, group=ResourceLimits({"cpu": self.most_cpus}))
            users = (limit, Association(ROOT, ANYONE))
            claims = Claims(SitePolicy(associations=users, enforces=("limits",)), self.nodes)
        state = ConsumableNodes(self.nodes, self.site_resources, claims)
        running = dict[RunId, Running]()
        for node in range(self.n_down):
            state.set_available(node, False)
        for run, (job, (_, ends_in_s)) in enumerate(zip(jobs, self.running, strict=False)):
            running |= running_first(state, RunId(run), job, self.now_s, self.now_s + ends_in_s)
        for job, (request, estimate_s) in zip(jobs[len(self.running) :], self.waiting, strict=True):
            state.wait(job, request, estimate_s)
        if self.reserved_in_s is not None:
            start_s = self.now_s + self.reserved_in_s
            state.queue.calendar.reserve("maintenance", [len(self.nodes) - 1], start_s, start_s + 10.0)
        return ConsumableNodesProblem(self.now_s, state, running)

    def startable(self, problem: ConsumableNodesProblem) -> JobId | None:
        nodes, waiting = problem.free_nodes.nodes, problem.free_nodes.waiting
        is_reserved = self.reserved_in_s is not None
        if (
            problem.running
            or is_reserved
            or not all(nodes.fits(*waiting.request_of(i)) for i in range(problem.n_jobs))
        ):
            return None  # while a job waits for a node that is down, others may wait for that job
        return problem.jobs[0].id


def running_first(
    state: ConsumableNodes, run: RunId, job: Job, now_s: float, end_s: float
) -> dict[RunId, Running]:
    """Start a job on the first nodes on which it fits. Returns the run; none if there are no such nodes."""
    assert job.request is not None
    kind, chunks = state.nodes.note_request(job.request), job.request.chunks
    if not state.nodes.fits(kind, chunks):
        return {}
    used = state.nodes.divided(kind, chunks, state.nodes.where_fits(kind).tolist())
    assert used is not None
    there = np.unique(used[:, NODE])
    if not state.within_limits(job, job.request, there):
        return {}
    nodes = NodeSet.of(there.tolist())
    state.wait(job, job.request, now_s)
    state.start(run, job.id, Start(0, nodes, end_s), now_s)
    return {run: Running(job, ON_NODES, nodes, end_s)}


SECONDS = st.one_of(st.integers(1, 9).map(float), st.floats(1.0, 20.0, width=32))
"""Estimates of waiting jobs."""


@cache
def _ends_s(now_s: float) -> st.SearchStrategy[float]:
    return st.one_of(SECONDS, SECONDS, SECONDS, st.sampled_from([0.0, -1.0] if now_s else [0.0]))


@cache
def _sized(n_nodes: int) -> st.SearchStrategy[list[tuple[int, float]]]:
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
        running.append((size, draw(_ends_s(now_s))))
        left -= size
    return FreeNodesOutline(n_nodes, n_down, tuple(running), tuple(draw(_sized(n_nodes))), now_s)


def larger_on_free_nodes() -> tuple[FreeNodesOutline, ...]:
    rng = np.random.default_rng(1)
    outlines = []
    for n_jobs, n_nodes in ((300, 64), (40, 4096), (600, 16)):
        most = int(np.log2(n_nodes))
        sizes = 2 ** rng.integers(0, most + 1, n_jobs)
        estimates_s = rng.choice([60.0, 300.0, 3_600.0, 7_200.0], n_jobs)
        ends_s = rng.choice([0.5, 60.0, 100.0, 3_600.0], most)
        running = tuple((n_nodes // 2 ** (k + 2) or 1, float(end_s)) for k, end_s in enumerate(ends_s))
        waiting = tuple(zip(sizes.tolist(), estimates_s.tolist(), strict=True))
        outlines.append(FreeNodesOutline(n_nodes, 0, running, waiting, 100_000.0))
    return tuple(outlines)


PARTITIONS = ("cpu", "gpu")
NODE_LISTS = st.lists(
    st.builds(
        Node,
        st.integers(1, 4),
        st.integers(0, 4),
        st.lists(st.sampled_from(["a", "b"]), max_size=3).map(tuple),
        partitions=st.frozensets(st.sampled_from(PARTITIONS), min_size=1),
    ),
    min_size=1,
    max_size=4,
)
SITES: list[tuple[tuple[str, int], ...]] = [(), (), (("matlab", 2),), (("abaqus", 1), ("matlab", 3))]
"""Amounts of resources of the site."""

Jobs = list[tuple[Request, float]]


@cache
def _requests(site: tuple[tuple[str, int], ...]) -> st.SearchStrategy[Request]:
    kinds = [None, None, Gpus(1), Gpus(2), Gpus(2), Gpus(1, 0.5), Gpus(1, 1.0, frozenset("a"))]
    return st.builds(
        Request,
        chunks=st.integers(1, 3),
        cores=st.integers(1, 3),
        memory_mib=st.integers(0, 2),
        gpus=st.sampled_from(kinds),
        most_on_node=st.sampled_from([1, 1, None]),
        exclusive=st.sampled_from([False, False, False, True]),
        partitions=st.frozensets(st.sampled_from(PARTITIONS), max_size=1),
        site_resources=st.fixed_dictionaries({name: st.integers(0, n) for name, n in site}),
    )


@cache
def _running_and_waiting(
    site: tuple[tuple[str, int], ...], now_s: float
) -> tuple[st.SearchStrategy[Jobs], st.SearchStrategy[Jobs]]:
    requests = _requests(site)
    waiting = st.lists(st.tuples(requests, SECONDS), min_size=1, max_size=8)
    return st.lists(st.tuples(requests, _ends_s(now_s)), max_size=4), waiting


def _possible(jobs: Jobs, nodes: tuple[Node, ...]) -> tuple[tuple[Request, float], ...]:
    """One core on a node in place of requests that all nodes together do not satisfy."""
    return tuple(
        (request if sum(map(request.chunks_on, nodes)) >= request.chunks else Request(), time_s)
        for request, time_s in jobs
    )


@st.composite
def consumable_outlines(draw: st.DrawFn) -> ConsumableOutline:
    """A few nodes, and jobs of which each could run if all were free; with ties of sizes and times."""
    nodes = tuple(draw(NODE_LISTS))
    site = draw(st.sampled_from(SITES))
    now_s = draw(st.sampled_from([0.0, 10.0, 1234.5]))
    n_down = draw(st.integers(0, min(1, len(nodes) - 1)))
    running, waiting = (_possible(draw(jobs), nodes) for jobs in _running_and_waiting(site, now_s))
    cpus = [
        sum(node.cores for node in nodes) if job.exclusive else job.cpus for job, _ in (*running, *waiting)
    ]
    most_cpus = draw(st.sampled_from([None, None, ceil(max(cpus)), ceil(max(cpus)) + 2]))
    reserved_in_s = draw(st.sampled_from([None, None, 0.0, 5.0]))
    return ConsumableOutline(nodes, n_down, running, waiting, now_s, dict(site), most_cpus, reserved_in_s)


def larger_on_consumable_nodes() -> tuple[ConsumableOutline, ...]:
    rng = np.random.default_rng(1)

    def drawn(of_s: tuple[float, ...]) -> tuple[Request, float]:
        gpus = Gpus(int(rng.choice([1, 2, 4]))) if rng.random() < 0.2 else None
        request = Request(
            int(rng.choice([1, 1, 1, 4])),
            float(2 ** rng.integers(0, 7)),
            2 ** int(rng.integers(10, 17)),
            gpus,
            site_resources={"matlab": 1} if rng.random() < 0.2 else {},
        )
        return request, float(rng.choice(of_s))

    outlines = []
    for n_jobs, n_nodes in ((300, 64), (100, 256)):
        kinds = [Node(64, 256_000), Node(64, 512_000, ("a100",) * 4)]
        nodes = tuple(kinds[n % 8 == 0] for n in range(n_nodes))
        running = tuple(drawn((0.5, 60.0, 100.0, 3600.0)) for _ in range(n_nodes))
        waiting = tuple(drawn((60.0, 300.0, 3600.0)) for _ in range(n_jobs))
        outlines.append(ConsumableOutline(nodes, 0, running, waiting, 100_000.0, {"matlab": 10}))
    return tuple(outlines)
