"""Nodes and requests as tables, and which requests the nodes and their partitions admit."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from scheduler.core.arrays import Flags, Ints
from scheduler.messages import counted
from scheduler.node_request import (
    Node,
    Partition,
    Refusal,
    Request,
    RequestRules,
    alike,
    most_chunks,
    thousandths,
)
from scheduler.node_resources.core.codes import CORES, WHOLE
from scheduler.node_resources.core.state import Kinds, NodeState, NodeTable
from scheduler.node_resources.topology import Topology


class DescribedNodes:
    """Nodes, of which nothing is in use at first, resources of the whole site, and what is requested of them.
    Requests of one kind differ at most in their number of chunks."""

    def __init__(
        self,
        nodes: Sequence[Node],
        site_resources: Mapping[str, int] = MappingProxyType({}),
        topology: Topology | None = None,
    ) -> None:
        self.all, self.topology = tuple(nodes), topology
        self.site_resources = dict(sorted(site_resources.items()))
        self.names = sorted({name for node in nodes for name in node.others})
        self._types = {
            name: 1 << x for x, name in enumerate(sorted({t for node in nodes for t in node.gpus}))
        }
        self.kinds = Kinds(len(nodes), 2 + len(self.names) + len(self.site_resources))
        self.state = NodeState(self._table(), self.kinds)
        self._kind_of: dict[Any, int] = {}
        self.where: dict[int, str] = {}
        """The partition of kinds of request that are for one."""
        self._kept_kind: dict[int, int] = {}
        self.requested: dict[int, tuple[Request, int]] = {}
        """A request of each kind, and how many such jobs arrived."""
        self.total_requested = 0
        self._most_chunks: dict[Any, int] = {}
        self._pools: dict[frozenset[str], Flags] = {}
        """The nodes of the partitions that requests name."""
        self._alike = alike(nodes)
        self._usable_alike = _usable_alike(self.all)
        self.room: dict[int, Ints] = {}
        """With a topology: how many chunks of a kind, of any number, could be on each node."""
        if topology is not None:
            self.kinds.switches = topology.connect([node.switch for node in nodes])

    def alongside(self) -> Self:
        """Another state of the same nodes, for the same kinds."""
        other = copy(self)
        other.state = self.state.alongside()
        return other

    @property
    def table(self) -> NodeTable:
        return self.state.table

    @property
    def gpu_capacity(self) -> int:
        """All GPUs, in thousandths."""
        return WHOLE * int(np.count_nonzero(self.table.gpu_type))

    def request_of(self, kind: int, chunks: int) -> Request:
        """A request of this kind."""
        request, _ = self.requested[kind]
        return replace(request, chunks=chunks)

    def in_each(self, request: Request) -> list[Request]:
        """A request of several partitions in each of them that has room for it, by name; else none."""
        names = sorted(request.partitions | request.elsewhere)
        found = [request.within(name) for name in names] if len(names) > 1 else []
        return [each for each in found if self.most_chunks(each) >= each.chunks]

    def kind_of(self, request: Request) -> int:
        key = request.specification
        kind = self._kind_of.get(key)
        if kind is None:
            kind = self._kind_of[key] = self._described(request)
        return kind

    def kept_kind(self, kind: int) -> int:
        """What a suspended run keeps of a request of a kind, as a kind of its own: all but the CPUs; of whole
        nodes, their GPUs and what it requests of their memory."""
        kinds = self.kinds
        if kind not in self._kept_kind and kinds.most_on_node[kind]:
            need = np.array(kinds.need[kind])
            need[CORES] = 0
            share = WHOLE if kinds.exclusive[kind] else kinds.gpu_share[kind]
            gpus, eligible = (kinds.gpus[kind], share, kinds.gpu_types[kind]), np.array(kinds.eligible[kind])
            kept = self._kept_kind[kind] = kinds.add(
                need.tolist(), gpus, 0, False, eligible != 0, kinds.pool[kind]
            )
            kinds.job_class[kept] = kinds.job_class[kind]
        return self._kept_kind.get(kind, kind)

    def note_request(self, request: Request) -> int:
        """A job arrives; returns the kind of its request."""
        kind = self.kind_of(request)
        _, before = self.requested.get(kind, (request, 0))
        self.requested[kind] = request, before + 1
        self.total_requested += 1
        return kind

    def most_chunks(self, request: Request) -> int:
        """How many chunks of a request one job could have if nothing else ran and all nodes were up."""
        key = request.specification
        if key not in self._most_chunks:
            self._most_chunks[key] = most_chunks(request, self._alike)
        return self._most_chunks[key]

    def unconnected(self, kind: int, chunks: int, fit: Ints) -> str | None:
        """Why switches or blocks do not allow a job of that many chunks, of which some fit on each node, to
        have any of these nodes; None if they do."""
        kinds, most = self.kinds, self.kinds.most_leaves[kind]
        if not kinds.on_node[kind]:
            return None
        if not (n := kinds.n_leaves(kind, chunks, fit)):
            return f"no {'block' if kinds.switches.n_levels else 'switch'} connects so many of them"
        wait = f"it may have {most} until it has waited for {kinds.wait_s[kind]:,.10g} s"
        return f"{n} leaf switches connect them, and {wait}" if 0 < most < n else None

    def gpu_type_bits(self, types: Iterable[str]) -> int:
        """A bit for each of these types that some node has; for all types if there are none."""
        return sum(self._types.get(name, 0) for name in set(types) or self._types)

    def _table(self) -> NodeTable:
        n, n_gpus = len(self.all), max((len(node.gpus) for node in self.all), default=0)
        capacity, gpu_type = np.zeros((n, 2 + len(self.names)), np.int64), np.zeros((n, n_gpus), np.int64)
        for x, node in enumerate(self.all):
            others = (node.others.get(name, 0) for name in self.names)
            capacity[x] = thousandths(node.cores), node.memory_mib, *others
            gpu_type[x, : len(node.gpus)] = [self._types[name] for name in node.gpus]
        gpu_free = np.where(gpu_type != 0, WHOLE, 0)
        largest = [*capacity.max(axis=0, initial=0), gpu_free.sum(axis=1).max(initial=0)]
        return NodeTable(
            capacity,
            capacity.copy(),
            gpu_type,
            gpu_free,
            np.zeros((n, n_gpus + 1), np.int64),
            np.zeros(n, np.int64),
            np.array(largest, np.float64),
            np.array([list(self.site_resources.values())] * 2, np.int64),
        )

    def _described(self, request: Request) -> int:
        others = (request.others.get(name, 0) for name in self.names)
        of_site = (request.site_resources.get(name, 0) for name in self.site_resources)
        need = thousandths(request.cores), request.memory_mib, *others, *of_site
        gpus = 0, WHOLE, 0
        if request.gpus is not None:
            types = self.gpu_type_bits(request.gpus.types)
            gpus = request.gpus.count, thousandths(request.gpus.share), types
        most = np.iinfo(np.int64).max if request.most_on_node is None else request.most_on_node
        eligible = np.zeros(len(self.all), np.bool_)
        for node, which in self._usable_alike:
            eligible[which] = request.may_use(node)
        pool = self._pool(request.partitions)
        kind = self.kinds.add(need, gpus, most, request.exclusive, eligible, pool)
        self.kinds.job_class[kind] = self.kinds.calendar.job_class(request.reservation)
        if len(request.partitions) == 1:
            self.where[kind] = min(request.partitions)
        if self.topology is None:
            return kind
        any_number = replace(request, chunks=2**40)
        self.room[kind] = np.array([any_number.chunks_on(node) for node in self.all])
        if request.switches or not self.topology.is_optional:
            limit, after = request.switches if request.switch_wait_s else 0, kind
            if limit:
                after = self.kind_of(any_switches := replace(request, switch_wait_s=0.0))
                self.requested.setdefault(after, (any_switches, 0))
            on_node = max(1, int(self.room[kind].max(initial=0)))
            self.kinds.place_by_switches(kind, on_node, limit, request.switch_wait_s, after)
        return kind

    def _pool(self, partitions: frozenset[str]) -> int:
        """The number of the pool of some partitions' nodes."""
        if partitions not in self._pools:
            self._pools[partitions] = np.zeros(len(self.all), np.bool_)
            for node, which in self._usable_alike:
                self._pools[partitions][which] = not partitions or bool(partitions & node.partitions)
            pools = np.array([*self._pools.values()])
            self.kinds.overlap = (pools @ pools.T).view(np.uint8)
        return list(self._pools).index(partitions)


def _usable_alike(nodes: Sequence[Node]) -> list[tuple[Node, Ints]]:
    """The nodes by their features and partitions: a node of each kind, and the indices of all of them."""
    found: dict[Hashable, list[int]] = {}
    for n, node in enumerate(nodes):
        found.setdefault((node.features, node.partitions), []).append(n)
    return [(nodes[which[0]], np.array(which)) for which in found.values()]


class RequestAdmission:
    """A job that never fits, or that no partition it requests admits, is refused when it arrives.

    Of several partitions, those that admit it count. A job of one chunk runs in any of these. One of several
    chunks must not have nodes of different partitions: it runs in the one with room for most of its chunks
    (ties: by name).
    """

    def __init__(self, nodes: DescribedNodes, partitions: Mapping[str, Partition]) -> None:
        self._nodes = nodes
        names = partitions.keys() | {name for node in nodes.all for name in node.partitions}
        self._rule = RequestRules(names, partitions, nodes.site_resources, nodes.most_chunks)

    def admitted(self, request: Request, time_limit_s: float | None) -> Request | str:
        """The request in the partitions that count; or why a job with it is refused, "requests ..."."""
        found = self._rule.admitted(request, time_limit_s)
        if isinstance(found, Refusal):
            return f"requests {_refused(request, found)}"
        if found.chunks > 1 and len(found.partitions) > 1:
            found = found.within(self._largest(found, found.partitions))
        if self._nodes.topology is not None:
            kind = self._nodes.kind_of(replace(found, switch_wait_s=0.0))
            if (why := self._nodes.unconnected(kind, found.chunks, self._nodes.room[kind])) is not None:
                return f"requests {found}{found.where}; {why}"
        return found

    def _largest(self, request: Request, partitions: frozenset[str]) -> str:
        def room(name: str) -> int:
            return self._nodes.most_chunks(replace(request, partitions=frozenset((name,))))

        return max(sorted(partitions), key=room)


def _refused(request: Request, why: Refusal) -> str:
    if why.by_partitions:
        return why.by_partitions
    if why.beyond:
        return f"{request}; the site has {why.beyond}"
    noun = "node" if request.most_on_node == 1 else "task"
    most = why.most_chunks
    room = f"there is room for {counted(most, f'such {noun}')}" if most else f"no {noun} has room for it"
    return f"{request}{why.where}; {room}"
