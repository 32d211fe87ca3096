"""What nodes have, and what jobs request of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil
from typing import NamedTuple


@dataclass(frozen=True)
class Node:
    """The capacity of a node; `cores` counts CPUs as Slurm does, hardware threads or cores, as do those of
    requests; `gpus` is the type of each of its GPUs."""

    cores: float = 1.0
    memory_mib: int = 0
    gpus: tuple[str, ...] = ()
    others: Mapping[str, int] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()
    switch: str = ""
    """Its leaf switch or base block, of the site's network."""

    @property
    def specification(self) -> Hashable:
        """A key that is equal for nodes that are alike, wherever they are."""
        others = frozenset(self.others.items())
        return self.cores, self.memory_mib, self.gpus, others, self.features, self.partitions


def alike(nodes: Iterable[Node]) -> list[tuple[Node, int]]:
    """A node of each specification, and how many there are."""
    found: dict[Hashable, tuple[Node, int]] = {}
    for node in nodes:
        first, n = found.get(node.specification, (node, 0))
        found[node.specification] = first, n + 1
    return list(found.values())


@dataclass(frozen=True)
class Partition:
    """The nodes that name it, which other partitions may share, and the limits of its jobs."""

    name: str
    max_time_s: float | None = None
    max_nodes: int | None = None
    is_exclusive: bool = False
    """Whether its jobs take whole nodes."""
    default_time_s: float | None = None
    """The time limit of a job that requests none."""
    is_default: bool = False
    """Whether it is that of jobs which name none."""

    def refusal(self, request: Request, time_limit_s: float | None) -> str | None:
        """What a job requests that the partition does not allow, like "5 nodes, of which partition debug
        allows 2"; None if it admits the job."""
        if time_limit_s is not None and self.max_time_s is not None and time_limit_s > self.max_time_s:
            return f"{time_limit_s:,.10g} s, of which partition {self.name} allows {self.max_time_s:,.10g} s"
        if request.most_on_node == 1 and self.max_nodes is not None and request.chunks > self.max_nodes:
            return f"{request.chunks} nodes, of which partition {self.name} allows {self.max_nodes}"
        return None


def thousandths(amount: float) -> int:
    """Cores and GPUs are counted in thousandths."""
    return round(1000 * amount)


@dataclass(frozen=True, slots=True)
class Gpus:
    """GPUs of one chunk: `count` whole ones, or a share of one; of any of `types`, or of any type."""

    count: int = 1
    share: float = 1.0
    types: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.count < 1 or not 1 <= thousandths(self.share) <= 1000 or (self.count > 1 and self.share < 1):
            raise ValueError(
                f"{self.count} GPUs, {self.share:g} of each; expected whole ones, or from 0.001 to 1 of one"
            )

    def __str__(self) -> str:
        types = f"{'/'.join(sorted(self.types))} " if self.types else ""
        if self.share < 1.0:
            return f"{self.share:g} of a {types}GPU"
        return f"{self.count} {types}GPU{'s' if self.count > 1 else ''}"


MAX_CORES = 1e12
MAX_GPUS = 63
"""The most GPUs of a node, and GPU types of a site: both are bits of an integer."""
UNTYPED = "gpu"
"""The type of GPUs that are stated without one, as in `Gres=gpu:4`."""


@dataclass(frozen=True)
class Request:
    """`chunks` equal chunks, each on one node, at most `most_on_node` of them on the same node.

    n nodes, each with the same amounts, are n chunks with `most_on_node=1`; n tasks are n chunks. `others`
    are the site's own resources by name. An exclusive job takes whole nodes, on which nothing else runs.
    `site_resources` are by name what the job, whatever its chunks, has of resources of the whole site, like
    software licences."""

    chunks: int = 1
    cores: float = 1.0
    memory_mib: int = 0
    gpus: Gpus | None = None
    others: Mapping[str, int] = field(default_factory=dict)
    most_on_node: int | None = 1
    exclusive: bool = False
    features: frozenset[str] = frozenset()
    """Features that each node must have; `a|b` is any of several."""
    partitions: frozenset[str] = frozenset()
    """Partitions in one of which the job may run; any node if empty."""
    elsewhere: frozenset[str] = frozenset()
    """Further ones, in which only schedulers start it that try the partitions of a job one by one."""
    site_resources: Mapping[str, int] = field(default_factory=dict)
    reservation: str = ""
    """The reservation of nodes in which the job runs; empty: in none."""
    switches: int = 0
    """The most leaf switches on which the job may be, before it has waited for `switch_wait_s`; 0 = any."""
    switch_wait_s: float = 0.0

    def __post_init__(self) -> None:
        if not (self.cores or self.memory_mib or self.gpus or any(self.others.values())):
            raise ValueError("a chunk requests nothing; expected CPUs, memory or GPUs")
        if self.chunks < 1 or (self.most_on_node is not None and self.most_on_node < 1):
            raise ValueError(f"{self.chunks} chunks, {self.most_on_node} on a node; expected 1 or more")
        if not (self.cores == 0 or 0.001 <= self.cores < MAX_CORES):
            raise ValueError(f"{self.cores:g} CPUs; expected none, or from 0.001 to {MAX_CORES:g}")
        if min(self.memory_mib, *self.others.values(), *self.site_resources.values(), 0) < 0:
            raise ValueError(f"{self}; expected amounts of 0 or more")

    @cached_property
    def specification(self) -> Hashable:
        """A key that is equal for requests that differ at most in their number of chunks."""
        return (
            self.cores,
            self.memory_mib,
            self.gpus,
            _in_order(self.others),
            self.most_on_node,
            self.exclusive,
            self.features,
            self.partitions,
            _in_order(self.site_resources),
            self.reservation,
            self.switches,
            self.switch_wait_s,
        )

    @property
    def where(self) -> str:
        """Its partitions as part of a sentence: " in partition batch or debug"; empty for any node."""
        return f" in partition {' or '.join(sorted(self.partitions))}" if self.partitions else ""

    def within(self, partition: str) -> Request:
        """The same in one of its partitions."""
        of_all = self.partitions | self.elsewhere
        return replace(self, partitions=frozenset((partition,)), elsewhere=of_all - {partition})

    @property
    def cpus(self) -> int:
        """Its CPUs in total, 1 or more."""
        return max(1, ceil(self.chunks * self.cores))

    @property
    def n_gpus(self) -> float:
        """Its GPUs in total."""
        return 0.0 if self.gpus is None else float(self.chunks * self.gpus.count * self.gpus.share)

    def may_use(self, node: Node) -> bool:
        """Whether a node has the features of the request and is in one of its partitions."""
        return all(not node.features.isdisjoint(each.split("|")) for each in self.features) and (
            not self.partitions or not self.partitions.isdisjoint(node.partitions)
        )

    def chunks_on(self, node: Node) -> int:
        """How many chunks one job could have on a node on which nothing else runs."""
        if not self.may_use(node):
            return 0
        most = [self.chunks if self.most_on_node is None else self.most_on_node]
        if self.cores:
            most.append(thousandths(node.cores) // thousandths(self.cores))
        if self.memory_mib:
            most.append(node.memory_mib // self.memory_mib)
        most += [node.others.get(name, 0) // amount for name, amount in self.others.items() if amount]
        if self.gpus is not None:
            n_gpus = sum(not self.gpus.types or gpu in self.gpus.types for gpu in node.gpus)
            most.append(n_gpus * (1000 // thousandths(self.gpus.share)) // self.gpus.count)
        return min(most)

    def beyond(self, site_resources: Mapping[str, int]) -> str | None:
        """The amount that the site has of a resource of which the job requests more, like "5 matlab" or "no
        matlab".

        None if it has enough of all. Ties: the first by name."""
        for name, amount in sorted(self.site_resources.items()):
            if amount > (has := site_resources.get(name, 0)):
                return f"{has:,} {name}" if has else f"no {name}"
        return None

    def __str__(self) -> str:
        """For example "4 nodes with 8 CPUs, 1,024 MiB, 2 A100 GPUs each, and 1 matlab"."""
        each = [f"{self.cores:g} CPU{'s' if self.cores > 1 else ''}"] if self.cores else []
        each += [f"{self.memory_mib:,} MiB"] if self.memory_mib else []
        each += [str(self.gpus)] if self.gpus else []
        each += [f"{amount:,} {name}" for name, amount in sorted(self.others.items()) if amount]
        noun = "node" if self.most_on_node == 1 else "task"
        whole = " exclusively" if self.exclusive else ""
        of_site = [f"{amount:,} {name}" for name, amount in sorted(self.site_resources.items()) if amount]
        once = f", and {' and '.join(of_site)}" if of_site else ""
        if self.chunks == 1:
            return f"1 {noun} with {', '.join(each)}{whole}{once}"
        return f"{self.chunks} {noun}s with {', '.join(each)} each{whole}{once}"


def _in_order(amounts: Mapping[str, int]) -> Hashable:
    return tuple(sorted(amounts.items())) if amounts else ()


def most_chunks(request: Request, there: Sequence[tuple[Node, int]]) -> int:
    """How many of its chunks one job could have, if nothing else ran, on nodes that are alike (`alike`).

    A job runs in one of its partitions: the one with room for the most chunks counts.
    """
    # Of any number of chunks: tasks may all be on one node.
    any_number = replace(request, chunks=2**63 - 1)
    room = [(node, any_number.chunks_on(node) * n) for node, n in there]
    if not request.partitions:
        return sum(chunks for _, chunks in room)
    return max(sum(chunks for node, chunks in room if name in node.partitions) for name in request.partitions)


class Refusal(NamedTuple):
    """Why a request could not be satisfied even if all were free: what its partitions do not allow, else what
    the site has of a resource (`Request.beyond`), else for how many chunks there is room, and `where`."""

    by_partitions: str = ""
    beyond: str = ""
    most_chunks: int = 0
    where: str = ""


@dataclass(frozen=True)
class RequestRules:
    """The rule of which requests a site admits: `names` are those of all partitions, `partitions` has limits
    of some, and `most_chunks` is the function above for the site's nodes."""

    names: Collection[str]
    partitions: Mapping[str, Partition]
    site_resources: Mapping[str, int]
    most_chunks: Callable[[Request], int]

    def admitted(self, request: Request, time_limit_s: float | None) -> Request | Refusal:
        """The request in those of its partitions that admit it, or why there are none."""
        refusals = {name: self._refusal(name, request, time_limit_s) for name in sorted(request.partitions)}
        admitting = frozenset(name for name, why in refusals.items() if why is None)
        if refusals and not admitting:
            return Refusal(by_partitions=" and ".join(filter(None, refusals.values())))
        if admitting != request.partitions:
            request = replace(request, partitions=admitting)
        if beyond := request.beyond(self.site_resources):
            return Refusal(beyond=beyond)
        most = self.most_chunks(request)
        return request if most >= request.chunks else Refusal(most_chunks=most, where=request.where)

    def _refusal(self, name: str, request: Request, time_limit_s: float | None) -> str | None:
        """What a job requests that a partition does not allow; None if it admits the job."""
        if name not in self.names:
            return f"partition {name}, which the site does not have"
        return self.partitions.get(name, Partition(name)).refusal(request, time_limit_s)
