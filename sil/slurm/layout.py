"""Slurm's nodes and what they are in the simulated world: jobs as submissions, launches as orders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from scheduler.model import ON_NODES, DispatchOrder, Job, RunId, Share
from scheduler.node_request import Node, Request
from scheduler.node_set import NodeSet
from sil.slurm.protocol.job_credential import NodeShare

Options = dict[str, Any]
"""Of a submission (`sil.slurm.protocol.submission.Submission`)."""


class Layout(ABC):
    """`nodes` are those of the controller, by name."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.nodes = nodes

    @abstractmethod
    def options(self, job: Job) -> Options:
        """What a job requests of nodes. Raises CannotRequest."""

    @abstractmethod
    def order(self, run: RunId, job: Job, shares: Sequence[NodeShare], expected_s: float) -> DispatchOrder:
        """The order for a launch. Raises LookupError for a node that is not known."""


class CannotRequest(Exception):
    """Slurm knows no such request. The message is a clause."""


class Processors(Layout):
    """The CPUs of the controller's nodes, in their order, are the processors of the world; jobs request so
    many of them."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        super().__init__(nodes)
        self._first: dict[str, int] = {}
        n = 0
        for name, node in nodes.items():
            self._first[name] = n
            n += int(node.cores)
        self.n = n

    def options(self, job: Job) -> Options:
        if self.n == len(self.nodes):
            return {"min_nodes": job.n_tasks, "tasks": job.n_tasks}
        return {"tasks": job.n_tasks, "cpus_per_task": 1}

    def order(self, run: RunId, job: Job, shares: Sequence[NodeShare], expected_s: float) -> DispatchOrder:
        places = [
            self._first[share.node] + core
            for share in shares
            for core in share.cores or range(int(self.nodes[share.node].cores))
        ]
        return DispatchOrder(run, job, ON_NODES, NodeSet.of(sorted(places)), expected_s)


class Parts(Layout):
    """The controller's nodes are those of the world, in this order; jobs request parts of them."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        super().__init__(nodes)
        self._number = {name: k for k, name in enumerate(nodes)}

    def options(self, job: Job) -> Options:
        assert job.request is not None, "all jobs have requests"
        return options_of(job.request)

    def order(self, run: RunId, job: Job, shares: Sequence[NodeShare], expected_s: float) -> DispatchOrder:
        assert job.request is not None
        found = tuple(
            Share(self._number[share.node], self._chunks(job.request, share), share.gpus)
            for share in sorted(shares, key=lambda share: self._number[share.node])
        )
        return DispatchOrder(run, job, ON_NODES, NodeSet.of([each.node for each in found]), expected_s, found)

    @staticmethod
    def _chunks(request: Request, share: NodeShare) -> int:
        """Whole nodes have at least one chunk."""
        if request.most_on_node == 1 or request.chunks == 1:
            return 1
        return max(1, round(len(share.cores) / request.cores)) if request.cores else 1


def options_of(request: Request) -> Options:
    """The options of a submission. One chunk on each node is what a job requests of each node; else chunks
    are tasks. Raises CannotRequest."""
    found: Options = {"exclusive": True} if request.exclusive else {}
    if request.cores != int(request.cores):
        raise CannotRequest(f"{request.cores:g} CPUs, and Slurm allocates whole ones")
    cores = max(1, int(request.cores))
    if request.most_on_node == 1 or request.chunks == 1:
        found |= {"min_nodes": request.chunks, "tasks": request.chunks, "cpus_per_task": cores}
        if request.most_on_node == 1:
            found["tasks_per_node"] = 1
        found["memory_per_node_mb"] = request.memory_mib
        found |= _gpus(request, "gpus_per_node")
        if request.others:
            found["gres"] = ",".join(f"{name}:{n}" for name, n in sorted(request.others.items()))
    else:
        if request.others:
            raise CannotRequest(f"{', '.join(request.others)} for each of several tasks on a node")
        found |= {"tasks": request.chunks, "cpus_per_task": cores}
        if request.most_on_node is not None:
            found["tasks_per_node"] = request.most_on_node
        found["memory_per_cpu_mb"] = ceil(request.memory_mib / cores)
        found |= _gpus(request, "gpus_per_task")
    if request.features:
        found["constraint"] = "&".join(sorted(request.features))
    if request.partitions:
        found["partition"] = ",".join(sorted(request.partitions))
    if request.site_resources:
        found["licenses"] = ",".join(f"{name}:{n}" for name, n in sorted(request.site_resources.items()))
    return found


def _gpus(request: Request, option: str) -> Options:
    gpus = request.gpus
    if gpus is None:
        return {}
    if gpus.share < 1.0 or len(gpus.types) > 1:
        raise CannotRequest(f"{gpus}, and Slurm allocates whole ones of one type")
    return {option: ":".join((*gpus.types, str(gpus.count)))}
