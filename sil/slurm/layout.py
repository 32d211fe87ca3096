"""Slurm's nodes and what they are in the simulated world: jobs as submissions, launches as orders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from types import MappingProxyType
from typing import Any

from scheduler.model import ON_NODES, DispatchOrder, Job, RunId, Share
from scheduler.node_request import UNTYPED, Node, Request
from scheduler.node_set import NodeSet
from sil.slurm.cluster import MAX_CPUS
from sil.slurm.protocol.submission import NodeShare
from site_db.site_file.cluster import SiteNodes

Options = dict[str, Any]
"""The options of a submission (`sil.slurm.protocol.submission.Submission`)."""

_NO_THREADS: Mapping[str, int] = MappingProxyType({})


class Layout(ABC):
    """`nodes` are those of the controller, by name, and `threads` those of their cores, where cores have
    several."""

    def __init__(self, nodes: Mapping[str, Node], threads: Mapping[str, int] = _NO_THREADS) -> None:
        self.nodes, self.threads = nodes, threads

    @abstractmethod
    def options(self, job: Job) -> Options:
        """What a job requests of nodes. Raises CannotRequest."""

    @abstractmethod
    def order(self, run: RunId, job: Job, shares: Sequence[NodeShare], expected_s: float) -> DispatchOrder:
        """The order for a launch. Raises LookupError for a node that is not known."""

    @abstractmethod
    def name_of(self, place: int) -> str:
        """The controller's node that is, or has, one of the world's."""


class CannotRequest(Exception):
    """Slurm knows no such request. The message is a clause."""


class Processors(Layout):
    """The CPUs of the controller's nodes, in their order, are the processors of the world; jobs request a
    number of them, and do not use what they have beyond that of whole cores or nodes."""

    def __init__(self, nodes: Mapping[str, Node], threads: Mapping[str, int] = _NO_THREADS) -> None:
        super().__init__(nodes, threads)
        self._first: dict[str, int] = {}
        n = 0
        for name, node in nodes.items():
            self._first[name] = n
            n += int(node.cores)
        self.n = n
        self._names, self._places = [*self._first], [*self._first.values()]

    def options(self, job: Job) -> Options:
        if self.n == len(self.nodes):
            return {"min_nodes": job.n_tasks, "tasks": job.n_tasks}
        return {"tasks": job.n_tasks, "cpus_per_task": 1}

    def order(self, run: RunId, job: Job, shares: Sequence[NodeShare], expected_s: float) -> DispatchOrder:
        places = [self._first[share.node] + cpu for share in shares for cpu in self._cpus(share)]
        return DispatchOrder(run, job, ON_NODES, NodeSet.of(sorted(places[: job.n_tasks])), expected_s)

    def name_of(self, place: int) -> str:
        return self._names[bisect_right(self._places, place) - 1]

    def _cpus(self, share: NodeShare) -> Iterable[int]:
        if not share.cores:
            return range(int(self.nodes[share.node].cores))
        threads = self.threads.get(share.node, 1)
        return (core * threads + thread for core in share.cores for thread in range(threads))


class Parts(Layout):
    """The controller's nodes are those of the world; jobs request parts of them."""

    def __init__(self, cluster: SiteNodes) -> None:
        super().__init__(cluster.nodes, cluster.threads)
        self._has_memory = cluster.has_memory
        self._number = {name: k for k, name in enumerate(cluster.nodes)}
        self._devices = {name: [*devices(node)] for name, node in cluster.nodes.items()}
        self._kinds = {kind for node in cluster.nodes.values() for kind in node.gpus}
        self._names = [*cluster.nodes]

    def name_of(self, place: int) -> str:
        return self._names[place]

    def options(self, job: Job) -> Options:
        assert job.request is not None, "all jobs have requests"
        request = job.request
        if not self._has_memory:
            request = replace(request, memory_mib=0) if request.cores or request.gpus else request
        return options_of(request, self._kinds)

    def order(self, run: RunId, job: Job, shares: Sequence[NodeShare], expected_s: float) -> DispatchOrder:
        request = job.request
        assert request is not None
        shares = sorted(shares, key=lambda share: self._number[share.node])
        chunks = self._chunks(request, shares)
        found = tuple(
            Share(self._number[share.node], n, self._gpus(request, share, n))
            for share, n in zip(shares, chunks, strict=True)
        )
        return DispatchOrder(run, job, ON_NODES, NodeSet.of([each.node for each in found]), expected_s, found)

    def _gpus(self, request: Request, share: NodeShare, chunks: int) -> tuple[int, ...]:
        """The numbers of the GPUs in the world that the job uses; a job with whole nodes names none."""
        if request.exclusive or request.gpus is None:
            return ()
        numbers = sorted(self._devices[share.node][place] for place in share.gpus)
        return tuple(numbers[: chunks * request.gpus.count])

    def _chunks(self, request: Request, shares: Sequence[NodeShare]) -> list[int]:
        """How many chunks there are on each node, which a launch does not say: at least one, and as many as
        fit into what the job has there, on the first nodes first. Slurm may give it more: whole cores, and
        sometimes a GPU that no task uses."""
        left, found = request.chunks - len(shares), []
        for share in shares:
            more = min(left, self._most_chunks(request, share) - 1)
            found.append(1 + max(0, more))
            left -= max(0, more)
        return found

    def _most_chunks(self, request: Request, share: NodeShare) -> int:
        most = request.chunks if request.most_on_node is None else request.most_on_node
        if request.exclusive:
            return min(most, request.chunks_on(self.nodes[share.node]))
        if request.gpus is not None:
            most = min(most, len(share.gpus) // request.gpus.count)
        return min(most, share.cpus // max(1, int(request.cores)))


def devices(node: Node) -> Iterator[int]:
    """The GPUs of a node in Slurm's order, by number: those of a type are together."""
    for kind in dict.fromkeys(node.gpus):
        yield from (number for number, other in enumerate(node.gpus) if other == kind)


def options_of(request: Request, kinds: Collection[str]) -> Options:
    """The options of a submission to nodes with these types of GPUs. One chunk on each node is what a job
    requests of each node; else chunks are tasks. Raises CannotRequest."""
    found: Options = {"exclusive": True} if request.exclusive else {}
    if request.cores != int(request.cores):
        raise CannotRequest(f"{request.cores:g} CPUs, and Slurm allocates whole ones")
    cores = max(1, int(request.cores))
    if cores > MAX_CPUS:
        raise CannotRequest(f"{cores:,} CPUs of a node, and Slurm counts up to {MAX_CPUS:,}")
    found |= {"tasks": request.chunks, "cpus_per_task": cores}
    if request.most_on_node is not None:
        found["tasks_per_node"] = request.most_on_node
    # A job that requests no memory has Slurm's default.
    if request.most_on_node == 1 or request.chunks == 1:
        found["min_nodes"] = request.chunks
        if request.memory_mib:
            found["memory_per_node_mb"] = request.memory_mib
        found |= _gpus(request, "gpus_per_node", kinds)
        if request.others:
            found["gres"] = ",".join(f"{name}:{n}" for name, n in sorted(request.others.items()))
    else:
        if request.others:
            raise CannotRequest(f"{', '.join(request.others)} for each of several tasks on a node")
        if request.memory_mib:
            found["memory_per_cpu_mb"] = ceil(request.memory_mib / cores)
        found |= _gpus(request, "gpus_per_task", kinds)
    if request.features:
        found["constraint"] = "&".join(
            f"({each})" if "|" in each else each for each in sorted(request.features)
        )
    if request.partitions:
        found["partition"] = ",".join(sorted(request.partitions))
    if request.switches:
        minutes, seconds = divmod(int(request.switch_wait_s), 60)
        found["others"] = (f"--switches={request.switches}@{minutes}:{seconds:02}",)
    if request.site_resources:
        found["licenses"] = ",".join(f"{name}:{n}" for name, n in sorted(request.site_resources.items()))
    return found


def _gpus(request: Request, option: str, kinds: Collection[str]) -> Options:
    gpus = request.gpus
    if gpus is None:
        return {}
    if gpus.share < 1.0:
        raise CannotRequest(f"{gpus}, and Slurm allocates whole ones here")
    are_any = (len(gpus.types) > 1 or UNTYPED in gpus.types) and gpus.types.issuperset(kinds)
    types = frozenset[str]() if are_any else gpus.types
    if len(types) > 1:
        raise CannotRequest(f"{gpus}, and Slurm allocates those of one type, or of any")
    if UNTYPED in types:
        raise CannotRequest(f"{gpus} without a type, and Slurm would take those of a type, too")
    return {option: ":".join((*types, str(gpus.count)))}
