"""What is free on nodes, where a request fits, and what a job uses: as values, and as rows for kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from types import MappingProxyType, TracebackType

import numpy as np

from scheduler.compiled import Ints, Ints2
from scheduler.model import Share
from scheduler.node_request import MOST_GPUS, Node
from scheduler.node_resources.described import DescribedNodes
from scheduler.node_resources.kernels import python_entry_points
from scheduler.node_resources.kernels.tables import CHUNKS, FREE, NODE, NONE


def mistake_in(shares: Iterable[Share], n_nodes: int) -> str | None:
    """Why shares name no nodes, chunks or GPUs; None if they do. Whether these are free is not examined."""
    for share in shares:
        node, chunks, gpus = share
        if not all(isinstance(number, Integral) for number in (node, chunks, *gpus)):
            return f"{share} has numbers that are not whole"
        if not 0 <= node < n_nodes or chunks < 1:
            return f"{share} is not 1 or more chunks on one of {n_nodes} nodes"
        if gpus and (len({*gpus}) < len(gpus) or not 0 <= min(gpus) <= max(gpus) < MOST_GPUS):
            return f"{share} does not name different GPUs of a node"
    return None


def rows_of(shares: Iterable[Share]) -> Ints2:
    """Rows of NODE, CHUNKS and GPUS (bits)."""
    rows = [(node, chunks, sum([1 << d for d in gpus])) for node, chunks, gpus in shares]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def gpus_of(bits: int) -> tuple[int, ...]:
    """The GPUs of a row."""
    return tuple([d for d in range(bits.bit_length()) if bits >> d & 1]) if bits else ()


def shares_of(rows: Ints2) -> tuple[Share, ...]:
    return tuple([Share(node, chunks, gpus_of(bits)) for node, chunks, bits in rows.tolist()])


class NodeResources(DescribedNodes):
    """The state of nodes, and of resources of the whole site, as callers in Python change it."""

    def __init__(
        self, nodes: Sequence[Node], site_resources: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        super().__init__(nodes, site_resources)
        self._changed: Ints = np.zeros(len(nodes), dtype=np.int64)

    def set_up(self, node: int, is_up: bool) -> None:
        """No job fits on a node that is down; what runs there keeps what it has."""
        (self.down.discard if is_up else self.down.add)(node)
        for kind, (request, _) in self.requested.items():
            self.requests.eligible[kind, node] = is_up and request.may_use(self.all[node])
        python_entry_points.touch(self.table, node)

    def fits(self, kind: int, chunks: int) -> bool:
        """Whether a job of that many chunks may start now."""
        return python_entry_points.fits(self.table, self.requests, kind, chunks)

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

    def takes_parts_of_gpus(self, kind: int) -> bool:
        return python_entry_points.uses_parts_of_gpus(self.requests, kind)

    def changed_since(self, clock: int) -> Ints:
        """The nodes that changed after `clock`; valid until the next call."""
        return self._changed[: python_entry_points.changed_since(self.table, clock, self._changed)]

    def most_rows(self, kind: int, chunks: int) -> int:
        """See `kernels.allocation.most_rows`."""
        return python_entry_points.rows_at_most(self.requests, kind, chunks)

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
            python_entry_points.take(self.table, self.requests, kind, used, row, gpu)
        if self.site_resources:
            self.table.site[FREE] -= self.site_need(kind)

    def give_back(self, kind: int, used: Ints2) -> None:
        """Give back what `take` took."""
        python_entry_points.give_back(self.table, self.requests, kind, used)
        if self.site_resources:
            self.table.site[FREE] += self.site_need(kind)


def one_chunk_each(used: Ints2) -> Ints2:
    """Rows of one chunk, since each may be on another GPU."""
    rows = np.repeat(used, used[:, CHUNKS], axis=0)
    rows[:, CHUNKS] = 1
    return rows


class Trial:
    """Takes and gives back on the state of nodes, and leaves it as it was found."""

    def __init__(self, nodes: NodeResources) -> None:
        self._nodes = nodes
        self._changes: list[tuple[bool, int, Ints2]] = []
        """Whether it was taken, the kind of the request, and what."""

    def take(self, kind: int, used: Ints2) -> None:
        """Take what the rows of `used` state; writes GPUs where they name none."""
        self._nodes.take(kind, used)
        self._changes.append((True, kind, used))

    def give_back(self, kind: int, used: Ints2) -> None:
        self._nodes.give_back(kind, used)
        self._changes.append((False, kind, used))

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for was_taken, kind_of_request, used in reversed(self._changes):
            (self._nodes.give_back if was_taken else self._nodes.take)(kind_of_request, used)
