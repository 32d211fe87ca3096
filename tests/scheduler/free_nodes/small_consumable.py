"""An independent small version of consumable nodes: plain Python, no shared code, every search exhaustive."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field


@dataclass
class SmallNode:
    cores: int
    memory: int
    gpus: list[tuple[str, int]]
    """The type of each GPU, and what is left of it in thousandths."""
    partitions: frozenset[str] = frozenset()
    jobs: int = 0
    licences: int = 0
    """Those of the whole site, at the first node."""


@dataclass
class SmallJob:
    chunks: int
    cores: int
    memory: int
    estimate_s: float
    gpus: int = 0
    share: int = 1000
    gpu_type: str | None = None
    most_on_node: int = 1
    exclusive: bool = False
    partitions: frozenset[str] = frozenset()
    licences: int = 0
    """Of the job, whatever its chunks."""
    held: list[tuple[int, list[int]]] = field(default_factory=list)
    """For each chunk: its node and GPUs."""
    taken: dict[int, SmallNode] = field(default_factory=dict)


def put_chunk(nodes: list[SmallNode], job: SmallJob, n: int) -> bool:
    """Put one more chunk on node n, if it fits: tightest GPU for a part, else the first whole ones."""
    node = nodes[n]
    if job.partitions and not job.partitions & node.partitions:
        return False
    own = sum(1 for where, _ in job.held if where == n)
    if own == job.most_on_node or (job.exclusive and node.jobs > own):
        return False
    if node.cores < job.cores or node.memory < job.memory:
        return False
    fitting = [
        d for d, (kind, left) in enumerate(node.gpus) if left >= job.share and job.gpu_type in (None, kind)
    ]
    if len(fitting) < job.gpus:
        return False
    if job.share < 1000:
        fitting.sort(key=lambda d: (node.gpus[d][1], d))
    chosen = fitting[: job.gpus]
    node.cores -= job.cores
    node.memory -= job.memory
    for d in chosen:
        node.gpus[d] = node.gpus[d][0], node.gpus[d][1] - job.share
    node.jobs += 1
    job.held.append((n, chosen))
    return True


def place(nodes: list[SmallNode], job: SmallJob, order: Iterable[int] | None = None) -> bool:
    """Place a job on the first nodes, or the first in this order, that fit, as many chunks on each as
    possible, or change nothing."""
    before, job.held = deepcopy(nodes), []
    for n in range(len(nodes)) if order is None else order:
        while len(job.held) < job.chunks and put_chunk(nodes, job, n):
            pass
    if len(job.held) == job.chunks and job.licences <= nodes[0].licences:
        nodes[0].licences -= job.licences
        if job.exclusive:
            for n in {n for n, _ in job.held}:
                nodes[n].cores, nodes[n].memory = 0, 0
                nodes[n].gpus = [(kind, 0) for kind, _ in nodes[n].gpus]
        return True
    nodes[:], job.held = before, []
    return False


def remove(nodes: list[SmallNode], empty: list[SmallNode], job: SmallJob) -> None:
    nodes[0].licences += job.licences
    for n, gpus in job.held:
        node = nodes[n]
        node.jobs -= 1
        if job.exclusive:
            node.cores, node.memory, node.gpus = empty[n].cores, empty[n].memory, list(empty[n].gpus)
            continue
        node.cores += job.cores
        node.memory += job.memory
        for d in gpus:
            node.gpus[d] = node.gpus[d][0], node.gpus[d][1] + job.share


def fits(nodes: list[SmallNode], job: SmallJob) -> bool:
    return place(deepcopy(nodes), deepcopy(job))


Run = tuple[float, SmallJob]
"""The expected end of a running job."""


def at(time_s: float, nodes: list[SmallNode], empty: list[SmallNode], runs: list[Run]) -> list[SmallNode]:
    """The nodes at a later time, when the runs that should have ended have."""
    then = deepcopy(nodes)
    for end_s, job in runs:
        if end_s <= time_s:
            remove(then, empty, job)
    return then


def one_pass(
    nodes: list[SmallNode],
    empty: list[SmallNode],
    running: list[Run],
    queue: list[SmallJob],
    now_s: float,
    backfilling: Callable[[SmallJob], float] | None,
) -> list[int]:
    """The positions of the jobs that start, which are placed; `backfilling` is the order of trial, if any."""
    started, runs = [], list(running)
    first = 0
    while first < len(queue) and place(nodes, queue[first]):
        started.append(first)
        runs.append((now_s + queue[first].estimate_s, queue[first]))
        first += 1
    if first == len(queue) or backfilling is None:
        return started
    times = sorted({now_s, *(max(now_s, end_s) for end_s, _ in runs)})
    possible = [t for t in times if fits(at(t, nodes, empty, runs), queue[first])]
    shadow_s = min(possible, default=float("inf"))
    for i in sorted(range(first + 1, len(queue)), key=lambda i: backfilling(queue[i])):
        job, before = queue[i], deepcopy(nodes)
        if not place(nodes, job):
            continue
        end_s = now_s + job.estimate_s
        later = at(shadow_s, nodes, empty, [*runs, (end_s, job)])
        if end_s > shadow_s and not fits(later, queue[first]):
            nodes[:], job.held = before, []
            continue
        started.append(i)
        runs.append((end_s, job))
    return started


def replayed(
    empty: list[SmallNode],
    jobs: list[tuple[float, float, SmallJob]],
    one_round: Callable[[list[SmallNode], list[Run], list[SmallJob], float], list[int]],
) -> list[float]:
    """The start of each job: (arrival, run time, job), in order of arrival. Ends come before arrivals."""
    nodes, starts_s = deepcopy(empty), [float("inf")] * len(jobs)
    arrives_s, waiting, running = [row[0] for row in jobs], list[int](), list[tuple[float, int]]()
    arrived = 0
    while arrived < len(jobs) or running:
        now_s = min([end_s for end_s, _ in running] + arrives_s[arrived : arrived + 1])
        for _, k in [run for run in running if run[0] == now_s]:
            remove(nodes, empty, jobs[k][2])
        running = [run for run in running if run[0] > now_s]
        while arrived < len(jobs) and arrives_s[arrived] == now_s:
            waiting.append(arrived)
            arrived += 1
        expected = [(starts_s[k] + jobs[k][2].estimate_s, jobs[k][2]) for _, k in running]
        started = [waiting[i] for i in one_round(nodes, expected, [jobs[k][2] for k in waiting], now_s)]
        for k in started:
            starts_s[k] = now_s
            running.append((now_s + jobs[k][1], k))
        waiting = [k for k in waiting if k not in started]
    return starts_s
