"""What is free on nodes, and where a request fits."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from scheduler.compiled import Ints, Ints2, allocate, copied
from scheduler.node_request import Node, Request, alike, most_chunks, thousandths
from scheduler.node_resources.kernels import allocation, fitting
from scheduler.node_resources.kernels.tables import (
    CHUNKS,
    CLOCK,
    FREE,
    HAS,
    NEWER,
    NEWEST,
    NODE,
    NONE,
    OLDER,
    WHOLE,
    NodeTable,
    RequestTable,
)
from scheduler.node_resources.shares import gpus_of

FEWEST_KINDS = 16


class NodeResources:
    """The state of nodes, and of resources of the whole site. Requests of one kind differ at most in their
    number of chunks."""

    def __init__(
        self, nodes: Sequence[Node], site_resources: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        self.all = tuple(nodes)
        self.site_resources = dict(sorted(site_resources.items()))
        self.names = sorted({name for node in nodes for name in node.others})
        self._types = {
            name: 1 << x for x, name in enumerate(sorted({t for node in nodes for t in node.gpus}))
        }
        n_nodes, n_resources = len(nodes), 2 + len(self.names)
        n_gpus = max((len(node.gpus) for node in nodes), default=0)
        table = (n_nodes, n_resources), (n_nodes, n_resources), (n_nodes, n_gpus), (n_nodes, n_gpus)
        each, of_site = (n_nodes, n_nodes, (n_nodes, 2)), (2, len(self.site_resources))
        self.table: NodeTable = allocate(
            NodeTable, *table, (n_nodes, n_gpus + 1), *each, 2, n_resources + 1, of_site
        )
        self._fill()
        self._kinds: dict[Any, int] = {}
        self.requests = self._requests(FEWEST_KINDS)
        self.requested: dict[int, tuple[Request, int]] = {}
        """By kind: a request, and how many such jobs arrived."""
        self.total_requested = 0
        self._changed: Ints = np.zeros(n_nodes, dtype=np.int64)
        self.down: set[int] = set()
        """The nodes that are down."""
        self._most_chunks: dict[Any, int] = {}
        self._alike = alike(nodes)
        self._usable_alike = _usable_alike(self.all)

    def alongside(self) -> NodeResources:
        """Another state of the same nodes, for the same kinds; valid until `requests` is replaced."""
        other = copy(self)
        other.table = copied(self.table)
        own = {name: np.zeros_like(getattr(self.requests, name)) for name in ("fit", "total", "seen")}
        other.requests = self.requests._replace(**own)
        other._changed = np.zeros(len(self.all), dtype=np.int64)
        return other

    @property
    def clock(self) -> int:
        """The time of the last change, in changes."""
        return int(self.table.changes[CLOCK])

    @property
    def gpu_capacity(self) -> int:
        """All GPUs, in thousandths."""
        return WHOLE * int(np.count_nonzero(self.table.gpu_type))

    def request_of(self, kind: int, chunks: int) -> Request:
        """A request of this kind."""
        request, _ = self.requested[kind]
        return replace(request, chunks=chunks)

    def kind_of(self, request: Request) -> int:
        """The row of `requests` for a request."""
        key = self._key(request)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = len(self._kinds)
            if kind == len(self.requests.gpus):
                self._grow()
            self._describe(kind, request)
        return kind

    def note_request(self, request: Request) -> int:
        """A job arrives; returns the kind of its request."""
        kind = self.kind_of(request)
        _, before = self.requested.get(kind, (request, 0))
        self.requested[kind] = request, before + 1
        self.total_requested += 1
        return kind

    def most_chunks(self, request: Request) -> int:
        """How many chunks of a request one job could have if nothing else ran and all nodes were up."""
        key = self._key(request)
        if key not in self._most_chunks:
            self._most_chunks[key] = most_chunks(request, self._alike)
        return self._most_chunks[key]

    def set_up(self, node: int, is_up: bool) -> None:
        """No job fits on a node that is down; what runs there keeps what it has."""
        (self.down.discard if is_up else self.down.add)(node)
        for kind, (request, _) in self.requested.items():
            self.requests.eligible[kind, node] = is_up and request.may_use(self.all[node])
        fitting.touch(self.table, node)

    def fits(self, kind: int, chunks: int) -> bool:
        """Whether a job of that many chunks may start now."""
        return fitting.fits(self.table, self.requests, kind, chunks)

    def gpu_type_bits(self, types: Iterable[str]) -> int:
        """A bit for each of these types that some node has; for all types if there are none."""
        return sum(self._types.get(name, 0) for name in set(types) or self._types)

    def where_fits(self, kind: int) -> Ints:
        """The nodes on which a chunk fits, as of the last `fits`."""
        which: Ints
        (which,) = (self.requests.fit[kind] > 0).nonzero()
        return which

    def gpus_that_fit(self, kind: int, n: int) -> Ints:
        """The GPUs of node n of which a chunk may have its part; NONE if it requests no part of one."""
        if not self.takes_parts_of_gpus(kind):
            return np.array([NONE])
        allowed = self.table.gpu_type[n] & self.requests.gpu_types[kind] != 0
        which: Ints
        (which,) = (allowed & (self.table.gpu_free[n] >= self.requests.gpu_share[kind])).nonzero()
        return which

    def site_need(self, kind: int) -> Ints:
        """What a job requests of each of the site's resources, in order of their names."""
        return self.requests.need[kind, self.table.free.shape[1] :]

    def takes_parts_of_gpus(self, kind: int) -> bool:
        return allocation.uses_parts_of_gpus(self.requests, kind)

    def changed_since(self, clock: int) -> Ints:
        """The nodes that changed after `clock`; valid until the next call."""
        return self._changed[: fitting.changed_since(self.table, clock, self._changed)]

    def most_rows(self, kind: int, chunks: int) -> int:
        """See `kernels.allocation.most_rows`."""
        return allocation.rows_at_most(self.requests, kind, chunks)

    def divided(self, kind: int, chunks: int, nodes: Iterable[int]) -> Ints2 | None:
        """As many chunks as fit on each of some nodes in turn; None if they do not suffice."""
        self.fits(kind, chunks)
        rows = []
        for n in nodes:
            here = min(chunks, int(self.requests.fit[kind, n]))
            if here:
                rows.append((n, here, 0))
                chunks -= here
        used: Ints2 = np.array(rows, dtype=np.int64).reshape(-1, 3)
        if chunks:
            return None
        return one_chunk_each(used) if self.takes_parts_of_gpus(kind) else used

    def why_not(self, kind: int, chunks: int, used: Ints2) -> str | None:
        """Why a job of that many chunks cannot use the nodes and GPUs in `used`; None if it can."""
        rows = used.tolist()
        n_chunks, fewest = sum(row[CHUNKS] for row in rows), min((row[CHUNKS] for row in rows), default=0)
        if n_chunks != chunks or fewest < 1:
            return f"it requests {chunks} chunks and gets {n_chunks}"
        self.fits(kind, chunks)
        on_node: dict[int, list[list[int]]] = {}
        for row in rows:
            on_node.setdefault(row[NODE], []).append(row)
        for n, here in on_node.items():
            n_here = sum(row[CHUNKS] for row in here)
            if n_here > self.requests.fit[kind, n]:
                return f"{n_here} of its chunks do not fit on node {n}"
            if self.requests.exclusive[kind]:  # it gets all GPUs, whatever it names
                if len(here) > 1:
                    return f"node {n} is listed twice"
            elif (wrong := self._wrong_gpus(kind, n, here)) is not None:
                return wrong
        return None

    def _wrong_gpus(self, kind: int, n: int, here: list[list[int]]) -> str | None:
        """What is wrong with the GPUs of node n in some rows; rows without GPUs are free to choose."""
        named = [(chunks, gpus_of(bits)) for _, chunks, bits in here if bits]
        if not named:
            return None
        requests, left = self.requests, self.table.gpu_free[n].tolist()
        for chunks, gpus in named:
            if len(gpus) != chunks * requests.gpus[kind]:
                return (
                    f"{chunks} of its chunks request {chunks * requests.gpus[kind]} GPUs and get {len(gpus)}"
                )
            for d in gpus:
                if d >= len(left) or not self.table.gpu_type[n, d] & requests.gpu_types[kind]:
                    return f"GPU {d} of node {n} is not of a requested type"
                left[d] -= requests.gpu_share[kind]
                if left[d] < 0:
                    return f"GPU {d} of node {n} is not free"
        return None

    def take(self, kind: int, used: Ints2, gpu_on: Callable[[int], int] | None = None) -> None:
        """Take what a job has: all that the rows of `used` state, and the site's resources once.

        Writes GPUs where rows name none; `gpu_on` gives for a node that of which to take a part.
        """
        for row in range(len(used)):
            gpu = NONE if gpu_on is None else gpu_on(int(used[row, NODE]))
            allocation.take(self.table, self.requests, kind, used, row, gpu)
        if self.site_resources:
            self.table.site[FREE] -= self.site_need(kind)

    def give_back(self, kind: int, used: Ints2) -> None:
        """Give back what `take` took."""
        allocation.give_back(self.table, self.requests, kind, used)
        if self.site_resources:
            self.table.site[FREE] += self.site_need(kind)

    def _fill(self) -> None:
        table, n_nodes = self.table, len(self.all)
        for n, node in enumerate(self.all):
            others = (node.others.get(name, 0) for name in self.names)
            table.capacity[n] = thousandths(node.cores), node.memory_mib, *others
            for d, gpu_type in enumerate(node.gpus):
                table.gpu_type[n, d] = self._types[gpu_type]
                table.gpu_free[n, d] = WHOLE
        table.free[:] = table.capacity
        table.site[HAS] = table.site[FREE] = list(self.site_resources.values())
        table.largest[:-1] = table.capacity.max(axis=0, initial=0)
        table.largest[-1] = table.gpu_free.sum(axis=1).max(initial=0)
        table.version[:] = 1
        table.beside[:, NEWER] = np.arange(-1, n_nodes - 1)
        table.beside[:, OLDER] = [*range(1, n_nodes), NONE]
        table.changes[NEWEST], table.changes[CLOCK] = 0, 1

    def _requests(self, n_kinds: int) -> RequestTable:
        each = (n_kinds,) * 5
        n_nodes = len(self.all)
        return allocate(
            RequestTable,
            (n_kinds, self.table.free.shape[1] + len(self.site_resources)),
            *each,
            (n_kinds, n_nodes),
            (n_kinds, n_nodes),
            n_kinds,
            n_kinds,
        )

    def _grow(self) -> None:
        before = self.requests
        self.requests = self._requests(2 * len(before.gpus))
        for old, new in zip(before, self.requests, strict=True):
            new[: len(old)] = old

    def _key(self, request: Request) -> Any:
        return (
            request.cores,
            request.memory_mib,
            request.gpus,
            _in_order(request.others),
            request.most_on_node,
            request.exclusive,
            request.features,
            request.partitions,
            _in_order(request.site_resources),
        )

    def _describe(self, kind: int, request: Request) -> None:
        table, gpus = self.requests, request.gpus
        others = (request.others.get(name, 0) for name in self.names)
        of_site = (request.site_resources.get(name, 0) for name in self.site_resources)
        table.need[kind] = thousandths(request.cores), request.memory_mib, *others, *of_site
        if gpus is not None:
            table.gpus[kind] = gpus.count
            table.gpu_types[kind] = self.gpu_type_bits(gpus.types)
        table.gpu_share[kind] = WHOLE if gpus is None else thousandths(gpus.share)
        table.most_on_node[kind] = (
            np.iinfo(np.int64).max if request.most_on_node is None else request.most_on_node
        )
        table.exclusive[kind] = request.exclusive
        for node, which in self._usable_alike:
            table.eligible[kind, which] = request.may_use(node)
        table.eligible[kind, list(self.down)] = False


def _usable_alike(nodes: Sequence[Node]) -> list[tuple[Node, Ints]]:
    """The nodes by their features and partitions: a node of each kind, and the indices of all of them."""
    found: dict[Hashable, list[int]] = {}
    for n, node in enumerate(nodes):
        found.setdefault((node.features, node.partitions), []).append(n)
    return [(nodes[which[0]], np.array(which)) for which in found.values()]


def _in_order(amounts: Mapping[str, int]) -> Any:
    return tuple(sorted(amounts.items())) if amounts else ()


def one_chunk_each(used: Ints2) -> Ints2:
    """Rows of one chunk, since each may be on another GPU."""
    rows = np.repeat(used, used[:, CHUNKS], axis=0)
    rows[:, CHUNKS] = 1
    return rows
