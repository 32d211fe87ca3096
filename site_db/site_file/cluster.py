"""A cluster whose nodes have cores, memory and GPUs, and its partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import ceil, inf
from typing import NamedTuple

from scheduler.messages import abbreviated, counted, plural
from scheduler.node_request import Node, Partition, Refusal, Request, RequestRules, alike, most_chunks
from scheduler.node_resources.topology import Topology
from scheduler.priority.policy import SitePolicy


class HeldResources(NamedTuple):
    """What a job keeps from others, in total."""

    cpus: float
    gpus: float


@dataclass(frozen=True)
class SiteNodes:
    """Nodes by name. `Node.cores` counts CPUs, of which `threads` are on one core, by node."""

    nodes: Mapping[str, Node]
    partitions: Mapping[str, Partition]
    threads: Mapping[str, int]

    has_memory: bool = True
    """Whether memory is a resource that jobs request; otherwise no node runs out of it."""
    site_resources: Mapping[str, int] = field(default_factory=dict)
    """The resources of the whole site, like software licences: amounts by name (`matlab`, or with its licence
    server `matlab@server`)."""
    down: frozenset[str] = frozenset()
    """Nodes that take no jobs now."""
    policy: SitePolicy | None = None
    """Who is served first, and who has to wait; None: in order of arrival, without limits."""
    topology: Topology | None = None
    """The switches or blocks that connect the nodes, which name them; None: jobs may have any nodes."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """Sentences on what the nodes' file states and the model ignores."""

    @property
    def up(self) -> SiteNodes:
        """The nodes that take jobs now. Partitions may lose all their nodes."""
        if not self.down:
            return self
        n, names = len(self.down), abbreviated(sorted(self.down))
        nodes = {name: node for name, node in self.nodes.items() if name not in self.down}
        note = f"{counted(n, 'node')} left out, since {'it is' if n == 1 else 'they are'} down: {names}"
        return replace(self, nodes=nodes, down=frozenset(), notes=(*self.notes, note))

    def or_one_node(self, cores: int) -> SiteNodes:
        """The same; if it has no nodes, with one that has all cores of a log's machine."""
        return self if self.nodes else replace(self, nodes={"n1": Node(cores)}, has_memory=False)

    def first_for(self, request: Request) -> str | None:
        """The first node on which a chunk of a request fits; None if there is none."""
        return next((name for name, node in self._first.values() if request.chunks_on(node)), None)

    @cached_property
    def _first(self) -> dict[Hashable, tuple[str, Node]]:
        """The first node of each specification: there are few, and thousands of nodes and of requests."""
        found: dict[Hashable, tuple[str, Node]] = {}
        for name, node in self.nodes.items():
            found.setdefault(node.specification, (name, node))
        return found

    def held(self, request: Request) -> HeldResources:
        """What a job of this request keeps from others: what it requests, or all of whole nodes.

        Of whole nodes, the mean over the nodes that satisfy the request; what it requests if there are none.
        """
        if not request.exclusive:
            return HeldResources(request.cpus, request.n_gpus)
        there = [(node, n) for node, n in self._alike if request.chunks_on(node)]
        n_nodes = sum(n for _, n in there)
        if not n_nodes:
            return HeldResources(request.cpus, request.n_gpus)
        wanted = sum(ceil(request.chunks / request.chunks_on(node)) * n for node, n in there) / n_nodes
        return HeldResources(
            wanted * sum(node.cores * n for node, n in there) / n_nodes,
            wanted * sum(len(node.gpus) * n for node, n in there) / n_nodes,
        )

    def has(self, resource: str) -> bool:
        """Whether some node has a resource of the site's own."""
        return any(resource in node.others for node, _ in self._alike)

    def site_resource(self, name: str) -> str | None:
        """The site's resource that a job calls `name`, perhaps without the only server of a licence.

        None if there is none.
        """
        if name in self.site_resources:
            return name
        on_servers = [known for known in self.site_resources if known.startswith(f"{name}@")]
        return on_servers[0] if len(on_servers) == 1 else None

    def takes_whole_nodes(self, partitions: frozenset[str]) -> bool:
        """Whether a job of these partitions gets whole nodes, since all of them are exclusive."""
        limits = self.partitions
        return bool(partitions) and all(p in limits and limits[p].is_exclusive for p in partitions)

    def as_allocated(self, request: Request) -> Request:
        """What a job with this request gets in its partitions.

        Whole nodes in exclusive ones; if it names others, too, it goes to these, provided that they can
        satisfy it. Where memory is no resource, none. Of tasks, where all its partitions have a MaxNodes,
        equal blocks, at most that many, rounded up.
        """
        if not self.has_memory and request.memory_mib and (request.cores or request.gpus):
            request = replace(request, memory_mib=0)
        known = self.limits_of(request.partitions)
        shared = frozenset(partition.name for partition in known if not partition.is_exclusive)
        if len(shared) < len(known) and not request.exclusive:
            elsewhere = replace(request, partitions=shared)
            if shared and self.unsatisfied(elsewhere) is None:
                request = elsewhere
            else:
                request = replace(request, exclusive=True, partitions=request.partitions - shared)
        limits = [partition.max_nodes for partition in known]
        if request.most_on_node is None and limits and None not in limits:
            request = _in_blocks(request, max(filter(None, limits)))
        return request

    def unsatisfied(self, request: Request, time_limit_s: float | None = None) -> str | None:
        """What a job requests that the site cannot satisfy even if all is free, and why; None if it can."""
        why = self._admission.admitted(request, time_limit_s)
        if not isinstance(why, Refusal):
            return None
        if why.beyond:
            return f"{request}, but the site has {why.beyond}"
        return why.by_partitions or (
            f"{request}{request.where}, which the nodes cannot satisfy even if all are free"
        )

    def has_partition(self, name: str) -> bool:
        return name in self.by_partition

    def limits_of(self, names: Iterable[str]) -> list[Partition]:
        """The partitions of these names, in their order; one that only nodes or jobs name has no limits."""
        return [self.partitions.get(name, Partition(name)) for name in sorted(names)]

    def longest_limit_s(self, names: Iterable[str]) -> float:
        """The longest time limit that some of these partitions allow; infinite if one has none."""
        limits = self.limits_of(names)
        return max((inf if x.max_time_s is None else x.max_time_s for x in limits), default=inf)

    @cached_property
    def _alike(self) -> list[tuple[Node, int]]:
        return alike(self.nodes.values())

    @cached_property
    def _admission(self) -> RequestRules:
        enough = partial(most_chunks, there=self._alike)
        return RequestRules(self.by_partition, self.partitions, self.site_resources, enough)

    @cached_property
    def by_partition(self) -> Mapping[str, Sequence[str]]:
        """The names of the nodes of each partition, also of those that only nodes name."""
        found: dict[str, list[str]] = {name: [] for name in self.partitions}
        for name, node in self.nodes.items():
            for partition in sorted(node.partitions):
                found.setdefault(partition, []).append(name)
        return found

    @property
    def cores(self) -> int:
        return int(sum(node.cores for node in self.nodes.values()))

    @property
    def gpus(self) -> int:
        return sum(len(node.gpus) for node in self.nodes.values())

    def threads_in(self, partitions: frozenset[str]) -> int:
        """The most CPUs on one core, among the nodes in these partitions; among all nodes without any."""
        if partitions not in self._threads_in:
            there = (x for x, node in self.nodes.items() if not partitions or partitions & node.partitions)
            self._threads_in[partitions] = max((self.threads.get(name, 1) for name in there), default=1)
        return self._threads_in[partitions]

    @cached_property
    def _threads_in(self) -> dict[frozenset[str], int]:
        return {}

    def __str__(self) -> str:
        gpus = f" and {counted(self.gpus, 'GPU')}" if self.gpus else ""
        return f"{counted(len(self.nodes), 'node')} with {counted(self.cores, 'CPU')}{gpus}"

    @property
    def model(self) -> list[str]:
        """How the nodes are modelled, in two lines."""
        counts = Counter(
            ", ".join(
                [
                    f"{node.cores:g} {plural(int(node.cores), 'CPU')}",
                    *([f"{node.memory_mib:,} MiB"] if self.has_memory else []),
                    *(f"{n} {kind} {plural(n, 'GPU')}" for kind, n in Counter(node.gpus).items()),
                    *(f"{n:,} {name}" for name, n in sorted(node.others.items())),
                ]
            )
            for node in self.nodes.values()
        )
        groups = (f"{n:,} with {text}" for text, n in counts.items())
        memory = "CPUs, memory and GPUs" if self.has_memory else "CPUs and GPUs"
        sizes = (
            f"{name} ({len(self.by_partition[name]):,}{', exclusive' if partition.is_exclusive else ''})"
            for name, partition in self.partitions.items()
        )
        where = f"; partitions, by number of nodes: {', '.join(sizes)}" if self.partitions else ""
        has = ", ".join(f"{n:,} {name}" for name, n in self.site_resources.items())
        of_site = f"; the whole site has {has}" if has else ""
        return [f"Nodes: {'; '.join(groups)}", f"Jobs share nodes by {memory}{where}{of_site}"]


def _in_blocks(request: Request, most: int) -> Request:
    """Tasks in blocks that are on one node, so that the job is on at most `most` nodes."""
    size = ceil(request.chunks / most)
    gpus = request.gpus
    if size == 1 or (gpus is not None and gpus.share < 1):
        return request
    return replace(
        request,
        chunks=ceil(request.chunks / size),
        cores=size * request.cores,
        memory_mib=size * request.memory_mib,
        gpus=None if gpus is None else replace(gpus, count=size * gpus.count),
        others={name: size * amount for name, amount in request.others.items()},
    )
