"""The contract for schedulers that start rigid jobs on parts of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from scheduler.free_nodes.consumable_nodes import ConsumableNodes
from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem
from scheduler.model import ON_NODES, Job, JobId, RunId, Start
from scheduler.node_request import Gpus, Node, Request
from scheduler.node_resources.core.codes import NODE
from scheduler.node_resources.selection import FirstFit, Placement
from scheduler.node_resources.state import shares_of
from scheduler.node_set import NodeSet
from scheduler.problem import Running
from scheduler.rules import Kind
from scheduler.testing.drawing import st
from scheduler.testing.examination import Contract, Outline, Outlines
from scheduler.testing.identical_nodes import SECONDS, ends_s

PARTITIONS = ("cpu", "gpu")


@dataclass(frozen=True)
class ConsumableOutline:
    """A small problem on nodes of which the first `n_down` are down.

    `running` has requests of runs, which hold the first nodes that fit, and in how many seconds each is
    expected to end, which may be past; those that do not fit are left out. `waiting` has for each job, in
    queue order, its request and its estimate. `site_resources` are those of the whole site.
    """

    nodes: tuple[Node, ...]
    n_down: int
    running: tuple[tuple[Request, float], ...]
    waiting: tuple[tuple[Request, float], ...]
    now_s: float
    site_resources: Mapping[str, int]

    def __str__(self) -> str:
        if len(self.waiting) > 12:
            return f"a problem of {len(self.waiting)} jobs on {len(self.nodes)} nodes"
        return repr(self)

    @property
    def n_jobs(self) -> int:
        return len(self.waiting) + len(self.running)

    def build(self, first_id: int) -> ConsumableNodesProblem:
        state = ConsumableNodes(self.nodes, self.site_resources)
        running = dict[RunId, Running]()
        for node in range(self.n_down):
            state.set_available(node, False)
        n_waiting, n_running, n = len(self.waiting), len(self.running), self.n_jobs
        for k, (request, ends_in_s) in enumerate(self.running):
            job = self._job(first_id + n_waiting + k, k / n, request, self.now_s)
            running |= running_first(state, RunId(k), job, self.now_s, self.now_s + ends_in_s)
        for i, (request, estimate_s) in enumerate(self.waiting):
            job = self._job(first_id + i, (n_running + i) / n, request, estimate_s)
            state.wait(job, request, estimate_s)
        return ConsumableNodesProblem(self.now_s, state, running)

    def _job(self, number: int, when: float, request: Request, estimate_s: float) -> Job:
        return Job(
            JobId(number),
            "rigid",
            when * self.now_s,
            n_tasks=request.chunks,
            estimate_s=estimate_s,
            request=request,
        )


def running_first(
    state: ConsumableNodes, run: RunId, job: Job, now_s: float, end_s: float
) -> dict[RunId, Running]:
    """The job runs on the first nodes on which it fits, if there are any."""
    assert job.request is not None
    kind, chunks = state.nodes.note_request(job.request), job.request.chunks
    used = Placement(state.nodes.alongside(), FirstFit()).place(kind, chunks)
    if used is None:
        return {}
    nodes = NodeSet.of(set(used[:, NODE].tolist()))
    state.wait(job, job.request, now_s)
    state.start(run, job.id, Start(0, nodes, end_s, shares_of(used)), now_s)
    return {run: Running(job, ON_NODES, nodes, end_s)}


# Strategies are made once, since making one costs more than drawing from it.

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
SITES: list[tuple[tuple[str, int], ...]] = [
    (),
    (),
    (("matlab", 2),),
    (("abaqus", 1), ("matlab", 3)),
]
"""Amounts of resources of the site."""

Jobs = list[tuple[Request, float]]


@cache
def _requests(site: tuple[tuple[str, int], ...]) -> st.SearchStrategy[Request]:
    """Requests that the site's resources satisfy."""
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
def _running(site: tuple[tuple[str, int], ...], now_s: float) -> st.SearchStrategy[Jobs]:
    return st.lists(st.tuples(_requests(site), ends_s(now_s)), max_size=4)


@cache
def _waiting(site: tuple[tuple[str, int], ...]) -> st.SearchStrategy[Jobs]:
    return st.lists(st.tuples(_requests(site), SECONDS), min_size=1, max_size=8)


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
    return ConsumableOutline(
        nodes,
        draw(st.integers(0, min(1, len(nodes) - 1))),
        _possible(draw(_running(site, now_s)), nodes),
        _possible(draw(_waiting(site)), nodes),
        now_s,
        dict(site),
    )


def larger_outlines() -> Outlines:
    """Problems of a size at which schedulers for small cases only would fail."""
    rng = np.random.default_rng(1)
    outlines: list[Outline] = []
    for n_jobs, n_nodes in ((300, 64), (100, 1024)):
        kinds = [Node(64, 256_000), Node(64, 512_000, ("a100",) * 4)]
        nodes = tuple(kinds[n % 8 == 0] for n in range(n_nodes))

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

        running = tuple(drawn((0.5, 60.0, 100.0, 3600.0)) for _ in range(n_nodes))
        waiting = tuple(drawn((60.0, 300.0, 3600.0)) for _ in range(n_jobs))
        outlines.append(ConsumableOutline(nodes, 0, running, waiting, 100_000.0, {"matlab": 10}))
    return tuple(outlines)


class ConsumableNodesContract(Contract[ConsumableNodesProblem]):
    kind = Kind.FREE_NODES

    outlines = consumable_outlines()
    larger = larger_outlines()

    def startable(self, problem: ConsumableNodesProblem) -> JobId | None:
        if problem.running or not all(problem.free_nodes.nodes.fits(*each) for each in self._kinds(problem)):
            return None  # while a job waits for a node that is down, others may wait for that job
        return problem.jobs[0].id

    def _kinds(self, problem: ConsumableNodesProblem) -> list[tuple[int, int]]:
        return [problem.free_nodes.waiting.request_of(i) for i in range(problem.n_jobs)]
