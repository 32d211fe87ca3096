"""What is free on nodes, where a request fits, and what a job uses: as values, and as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral
from types import TracebackType

import numpy as np

from scheduler.core.arrays import Ints, Ints2
from scheduler.model import Share
from scheduler.node_request import MAX_GPUS
from scheduler.node_resources.core.codes import CHUNKS, NODE, NONE
from scheduler.node_resources.core.state import NodeState
from scheduler.node_resources.described import DescribedNodes


def mistake_in(shares: Iterable[Share], n_nodes: int) -> str | None:
    """Why shares name no nodes, chunks or GPUs; None if they do. Whether these are free is not examined."""
    for share in shares:
        node, chunks, gpus = share
        if not all(isinstance(number, Integral) for number in (node, chunks, *gpus)):
            return f"{share} has numbers that are not whole"
        if not 0 <= node < n_nodes or chunks < 1:
            return f"{share} is not 1 or more chunks on one of {n_nodes} nodes"
        if gpus and (len({*gpus}) < len(gpus) or not 0 <= min(gpus) <= max(gpus) < MAX_GPUS):
            return f"{share} does not name different GPUs of a node"
    return None


def rows_of(shares: Iterable[Share]) -> Ints2:
    rows = [(node, chunks, sum([1 << d for d in gpus])) for node, chunks, gpus in shares]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def gpus_of(bits: int) -> tuple[int, ...]:
    """The GPUs of a row."""
    return tuple([d for d in range(bits.bit_length()) if bits >> d & 1]) if bits else ()


def shares_of(rows: Ints2) -> tuple[Share, ...]:
    return tuple([Share(node, chunks, gpus_of(bits)) for node, chunks, bits in rows.tolist()])


class NodeResources(DescribedNodes):
    """The state of nodes, and of resources of the whole site, as callers in Python change it."""

    def set_up(self, node: int, is_up: bool) -> None:
        """Mark a node as up or down. No job fits on one that is down; what runs there keeps what it has."""
        self.kinds.calendar.set_up(node, is_up)
        self.state.has_changed(node)

    def fits(self, kind: int, chunks: int) -> bool:
        """Whether a job of that many chunks may start now."""
        return self.state.fits(kind, chunks)

    @contextmanager
    def keeping_out(self, kind: int, chunks: int, which: Ints) -> Iterator[bool]:
        """Within this context, no chunk of this kind fits on some nodes; yields whether that many fit."""
        self.fits(kind, chunks)
        fit, total = np.asarray(self.state.fit)[kind], np.asarray(self.state.total)
        before = fit[which]
        fit[which] = 0
        total[kind] -= before.sum()
        try:
            yield self.fits(kind, chunks)
        finally:
            fit[which] = before
            total[kind] += before.sum()

    def where_fits(self, kind: int) -> Ints:
        """The nodes on which a chunk fits, as of the last `fits`."""
        return np.flatnonzero(np.asarray(self.state.fit)[kind])

    def gpus_that_fit(self, kind: int, n: int) -> Ints:
        """The GPUs of node n of which a chunk may have its part; NONE if it requests no part of one."""
        if not self.kinds.takes_parts_of_gpus(kind):
            return np.array([NONE])
        allowed = self.table.gpu_type[n] & self.kinds.gpu_types[kind] != 0
        return np.flatnonzero(allowed & (self.table.gpu_free[n] >= self.kinds.gpu_share[kind]))

    def divided(self, kind: int, chunks: int, nodes: Iterable[int]) -> Ints2 | None:
        """Divide the chunks of a job over nodes, as many as fit on each in turn; None if they do not
        suffice."""
        self.fits(kind, chunks)
        fit, rows = self.state.fit, []
        for n in nodes:
            here = min(chunks, fit[kind, n])
            if here:
                rows.append((n, here, 0))
                chunks -= here
            if not chunks:
                break
        used: Ints2 = np.array(rows, dtype=np.int64).reshape(-1, 3)
        if chunks:
            return None
        return one_chunk_each(used) if self.kinds.takes_parts_of_gpus(kind) else used

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
            if n_here > self.state.fit[kind, n]:
                return f"{n_here} of its chunks do not fit on node {n}"
            if self.kinds.exclusive[kind]:  # it gets all GPUs, whatever it names
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
        kinds, left = self.kinds, self.table.gpu_free[n].tolist()
        for chunks, gpus in named:
            if len(gpus) != chunks * kinds.gpus[kind]:
                return f"{chunks} of its chunks request {chunks * kinds.gpus[kind]} GPUs and get {len(gpus)}"
            for d in gpus:
                if d >= len(left) or not self.table.gpu_type[n, d] & kinds.gpu_types[kind]:
                    return f"GPU {d} of node {n} is not of a requested type"
                left[d] -= kinds.gpu_share[kind]
                if left[d] < 0:
                    return f"GPU {d} of node {n} is not free"
        return None


def one_chunk_each(used: Ints2) -> Ints2:
    """Split rows into rows of one chunk, since each may be on another GPU."""
    rows = np.repeat(used, used[:, CHUNKS], axis=0)
    rows[:, CHUNKS] = 1
    return rows


class Trial:
    """Takes and gives back on the state of nodes, and restores it."""

    def __init__(self, nodes: NodeState) -> None:
        self._nodes = nodes
        self._changes: list[tuple[bool, int, Ints2]] = []
        """The changes: whether it was taken, the kind of the request, and what."""

    def take(self, kind: int, used: Ints2) -> None:
        """Take what the rows of `used` state; writes GPUs where they name none."""
        self._nodes.take_all_of(kind, used)
        self._changes.append((True, kind, used))

    def give_back(self, kind: int, used: Ints2) -> None:
        self._nodes.give_all_back(kind, used)
        self._changes.append((False, kind, used))

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for was_taken, kind_of_request, used in reversed(self._changes):
            (self._nodes.give_all_back if was_taken else self._nodes.take_all_of)(kind_of_request, used)
