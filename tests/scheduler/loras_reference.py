"""The reference implementation of LoRaS, with which tests compare the compiled one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf

from scheduler.model import NodeSchedule, Start
from scheduler.time_shared.loras import JobChoice, Method, NodeChoice, OrderChoice
from scheduler.time_shared.problem import SharedNodes, TimeSharedProblem
from scheduler.time_shared.social_contract import sum_in_order

SLACK = 1e-9
TOGETHER_S = 1e-9


@dataclass(eq=False)
class _Job:
    id: int
    position: int
    tasks: int
    cpu: float
    memory_mb: float
    exe_s: float
    cpu_s: float
    reserved: float
    communicates: bool
    used_s: float
    run_s: float
    nodes: list[int] = field(default_factory=list)


@dataclass(eq=False)
class _Node:
    index: int
    local_mpl: float
    local_cpu: float
    most_jobs: int
    most_cpu: float
    most_memory_mb: float
    most_reserved: float
    jobs: list[_Job] = field(default_factory=list)

    @property
    def cpu(self) -> float:
        return sum_in_order(job.cpu for job in self.jobs)

    @property
    def memory_mb(self) -> float:
        return sum_in_order(job.memory_mb for job in self.jobs)

    @property
    def load(self) -> tuple[float, int, float, int]:
        return self.cpu + self.local_cpu, len(self.jobs), self.memory_mb, self.index

    def fits(self, job: _Job) -> bool:
        return (
            len(self.jobs) < self.most_jobs
            and self.memory_mb + job.memory_mb <= self.most_memory_mb + SLACK
            and self.cpu + job.cpu <= self.most_cpu + SLACK
            and sum_in_order(each.reserved for each in [*self.jobs, job]) <= self.most_reserved + SLACK
        )


Cluster = list[_Node]


class ReferenceLoras:
    """As `scheduler.time_shared.loras.Loras`, decision by decision."""

    def __init__(self, ordering: str, selection: str, node_selection: str, estimate: str = "cpu") -> None:
        self._ordering = OrderChoice(ordering)
        self._selection = JobChoice(selection)
        self._node_selection = NodeChoice(node_selection)
        self._estimate = Method(estimate)

    def schedule(self, problem: TimeSharedProblem) -> NodeSchedule:
        cluster, waiting, running = _plain(problem.shared_nodes)
        match self._ordering:
            case OrderChoice.SJF:
                waiting.sort(key=lambda job: job.exe_s)
            case OrderChoice.SNPF:
                waiting.sort(key=lambda job: job.tasks)
            case OrderChoice.EDF | OrderChoice.LEAST_LAXITY:
                takes = self._ordering is OrderChoice.LEAST_LAXITY
                due_s = {job.id: problem.jobs[job.position].deadline_s for job in waiting}
                waiting.sort(key=lambda job: due_s[job.id] - takes * job.exe_s)
        started = self._pass(waiting, cluster)
        while self._selection is JobChoice.EASY:
            left = [job for job in waiting if job not in started]
            more = self._backfill(left, cluster, running + started) if left else []
            if more:
                more += self._pass([job for job in left if job not in more], cluster)
            started += more
            if not more:
                break
        starts = tuple(
            Start(job.position, tuple(job.nodes), problem.now_s + self._expected_s(job, cluster))
            for job in started
        )
        return NodeSchedule(starts, {job.position: "waits" for job in waiting if job not in started})

    def _pass(self, waiting: list[_Job], cluster: Cluster) -> list[_Job]:
        left = list(waiting)
        started: list[_Job] = []
        while True:
            able = [job for job in left if self._nodes_for(job, cluster)]
            match self._selection:
                case JobChoice.JUST_FIRST | JobChoice.EASY:
                    able = [job for job in able if job is left[0]]
                case JobChoice.BEST_FIT:
                    able.sort(key=lambda job: -job.tasks)
            if not able:
                return started
            _put(able[0], self._nodes_for(able[0], cluster), cluster)
            left.remove(able[0])
            started.append(able[0])

    def _backfill(self, waiting: list[_Job], cluster: Cluster, running: list[_Job]) -> list[_Job]:
        head, *others = waiting
        left_s = {job: _remaining_s(job, cluster, self._estimate) for job in running}
        remaining, head_s = sorted(running, key=lambda job: (left_s[job], job.id)), inf
        while remaining and head_s == inf:
            first_s = left_s[remaining[0]]
            remaining = [job for job in remaining if left_s[job] > first_s + TOGETHER_S]
            if self._nodes_for(head, _only(remaining, cluster)):
                head_s = first_s
        started: list[_Job] = []
        for job in others:
            chosen = self._nodes_for(job, cluster)
            if not chosen:
                continue
            _put(job, chosen, cluster)
            is_over = job.exe_s * max(1.0, _cpu_max(job, cluster)) <= head_s + TOGETHER_S
            if is_over or self._nodes_for(head, _only([*remaining, job], cluster)):
                started.append(job)
                remaining += [] if is_over else [job]
            else:
                for n in chosen:
                    cluster[n].jobs.remove(job)
        return started

    def _nodes_for(self, job: _Job, cluster: Cluster) -> list[int]:
        """The nodes on which the job would start; none if it has to wait."""
        able = [node for node in cluster if node.fits(job)]
        if self._node_selection is NodeChoice.NORMAL:
            return _least_loaded(job, able)
        idle = _least_loaded(job, [node for node in able if not node.jobs])
        shared = idle or _matching_set(job, able)
        if shared or self._node_selection is NodeChoice.UNIFORM:
            return shared
        return _least_loaded(job, able)

    def _expected_s(self, job: _Job, cluster: Cluster) -> float:
        slower = 1.0 if self._estimate is Method.PROPORTIONAL else _slowdown(job, cluster, self._estimate)
        return job.exe_s * slower


def _least_loaded(job: _Job, able: Iterable[_Node]) -> list[int]:
    nodes = [node.index for node in sorted(able, key=lambda node: node.load)]
    return nodes[: job.tasks] if len(nodes) >= job.tasks else []


def _matching_set(job: _Job, able: list[_Node]) -> list[int]:
    sets = {tuple(other.nodes) for node in able for other in node.jobs if other.tasks == job.tasks}
    by_index = {node.index: node for node in able}
    choices = []
    for nodes in sets:
        if not all(n in by_index for n in nodes):
            continue
        there = by_index[nodes[0]].jobs
        closed = all(set(by_index[n].jobs) == set(there) for n in nodes)
        if closed and all(sorted(other.nodes) == sorted(nodes) for other in there):
            alike = sum(other.communicates == job.communicates for other in there)
            load = max(by_index[n].load[0] for n in nodes)
            choices.append((len(there), alike, load, min(nodes), there[0].nodes))
    return list(min(choices)[-1]) if choices else []


def _put(job: _Job, chosen: list[int], cluster: Cluster) -> None:
    job.nodes = chosen
    for n in chosen:
        cluster[n].jobs.append(job)


def _only(present: list[_Job], cluster: Cluster) -> Cluster:
    """The nodes with only these jobs."""
    return [replace(node, jobs=[job for job in node.jobs if job in present]) for node in cluster]


def _mpl_max(job: _Job, cluster: Cluster) -> float:
    return max(len(cluster[n].jobs) + cluster[n].local_mpl for n in job.nodes)


def _cpu_max(job: _Job, cluster: Cluster) -> float:
    return max(cluster[n].cpu + cluster[n].local_cpu for n in job.nodes)


def _slowdown(job: _Job, cluster: Cluster, method: Method) -> float:
    return _mpl_max(job, cluster) if method is Method.MPL else max(1.0, _cpu_max(job, cluster))


def _remaining_s(job: _Job, cluster: Cluster, method: Method) -> float:
    left_s = max(0.0, job.cpu_s - job.used_s)
    if method is Method.PROPORTIONAL and job.used_s > TOGETHER_S:
        return job.run_s * left_s / job.used_s
    isolated_s = job.exe_s * left_s / job.cpu_s
    return isolated_s if method is Method.PROPORTIONAL else isolated_s * _slowdown(job, cluster, method)


def _plain(shared: SharedNodes) -> tuple[Cluster, list[_Job], list[_Job]]:
    """The nodes, the waiting jobs and the running jobs."""
    jobs, nodes = shared.jobs, shared.nodes

    def job(row: int, position: int) -> _Job:
        numbers = (column[row].item() for column in jobs[:-1])
        return _Job(next(numbers), position, *numbers)

    waiting = [job(row, position) for position, row in enumerate(shared.waiting.tolist())]
    running = {row: job(row, -1) for row in shared.running.tolist()}
    cluster = []
    for n in range(shared.n_nodes):
        there = [running[row] for row in nodes.jobs[n, : nodes.n_jobs[n]].tolist()]
        cluster.append(
            _Node(
                n,
                nodes.local_mpl[n].item(),
                nodes.local_cpu[n].item(),
                nodes.most_jobs[n].item(),
                nodes.most_cpu[n].item(),
                nodes.most_memory_mb[n].item(),
                nodes.most_reserved[n].item(),
                there,
            )
        )
    for row, made in running.items():
        made.nodes = jobs.nodes[row, : jobs.tasks[row]].tolist()
    return cluster, waiting, list(running.values())
