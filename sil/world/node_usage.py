"""What runs use of nodes with cores, memory and GPUs: a plain count, independent of the scheduler's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from scheduler.messages import counted
from scheduler.model import Share
from scheduler.node_request import Node, Request, thousandths

CORES, MEMORY = "CPUs", "MiB of memory"
WHOLE_GPU = 1000


class NodeUsage:
    """The room left on each node: cores and GPUs in thousandths, memory in MiB, others in units; and what is
    left of resources of the whole site, of which a job has its part once."""

    def __init__(
        self, nodes: Sequence[Node], site_resources: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        self._nodes = nodes
        self._of_site = dict(site_resources)
        self._has = [
            {CORES: thousandths(node.cores), MEMORY: node.memory_mib, **node.others} for node in nodes
        ]
        self._room = [dict(each) for each in self._has]
        self._gpus = [[WHOLE_GPU] * len(node.gpus) for node in nodes]
        self._chunks = [0] * len(nodes)

    def why_not(self, request: Request, shares: Sequence[Share]) -> str | None:
        """Why a job cannot use these shares of nodes; None if it can."""
        n_chunks = sum(share.chunks for share in shares)
        if n_chunks != request.chunks:
            return f"it requests {request.chunks} chunks and gets {n_chunks}"
        chunks: dict[int, int] = {}
        taken: dict[tuple[int, int], int] = {}
        for node, here, gpus in shares:
            if not 0 <= node < len(self._nodes) or here < 1:
                return f"it gets {here} chunks on node {node}; there are nodes 0 to {len(self._nodes) - 1}"
            chunks[node] = chunks.get(node, 0) + here
            wrong = self._wrong_gpus(request, node, here, gpus, taken)
            if wrong is not None:
                return wrong
        amounts = _amounts(request)
        for node, here in chunks.items():
            wrong = self._wrong_on_node(request, amounts, node, here)
            if wrong is not None:
                return wrong
        for name, amount in request.site_resources.items():
            if amount > (left := self._of_site.get(name, 0)):
                return f"it requests {amount} {name}, of which the site has {left} left"
        return None

    def take(self, request: Request, shares: Sequence[Share]) -> None:
        self._change(request, shares, -1)

    def give_back(self, request: Request, shares: Sequence[Share]) -> None:
        self._change(request, shares, 1)

    def suspend(self, request: Request, shares: Sequence[Share]) -> None:
        """A job that has these shares leaves its CPUs to others, and keeps the rest; of the memory of whole
        nodes, what it requests."""
        self._change_lent(request, shares, 1)

    def resume(self, request: Request, shares: Sequence[Share]) -> None:
        self._change_lent(request, shares, -1)

    def why_not_resumed(self, request: Request, shares: Sequence[Share]) -> str | None:
        """Why a suspended job cannot have its CPUs back, as a clause; None if it can."""
        for node, chunks, _ in shares:
            if self._lent(request, node, chunks)[CORES] > self._room[node][CORES]:
                return f"node {node} has too few free {CORES}"
        return None

    def _change_lent(self, request: Request, shares: Sequence[Share], sign: int) -> None:
        for node, chunks, _ in shares:
            self._chunks[node] -= sign * chunks
            for name, amount in self._lent(request, node, chunks).items():
                self._room[node][name] += sign * amount

    def _lent(self, request: Request, node: int, chunks: int) -> dict[str, int]:
        """What a job has of a node and does not keep when it is suspended."""
        amounts = _amounts(request)
        if not request.exclusive:
            return {CORES: chunks * amounts.get(CORES, 0)}
        kept = {name: chunks * amount for name, amount in amounts.items() if name != CORES}
        return {name: has - kept.get(name, 0) for name, has in self._has[node].items()}

    def _wrong_on_node(
        self, request: Request, amounts: Mapping[str, int], node: int, chunks: int
    ) -> str | None:
        if not request.may_use(self._nodes[node]):
            return f"node {node} lacks a requested feature, or is in none of the requested partitions"
        if request.most_on_node is not None and chunks > request.most_on_node:
            return f"it gets {chunks} chunks on node {node}; at most {request.most_on_node} are to be on one"
        if request.exclusive and self._chunks[node]:
            return f"node {node} has other jobs, and it is to have the node to itself"
        for name, amount in amounts.items():
            if chunks * amount > self._room[node].get(name, 0):
                return f"node {node} has too few free {name} for {chunks} of its chunks"
        return None

    def _wrong_gpus(
        self, request: Request, node: int, chunks: int, gpus: Sequence[int], taken: dict[tuple[int, int], int]
    ) -> str | None:
        if request.exclusive:  # it has all GPUs, whatever it names
            if chunks > request.chunks_on(self._nodes[node]):
                return f"node {node} is too small for {chunks} of its chunks"
            return None
        wanted = request.gpus
        count = 0 if wanted is None else chunks * wanted.count
        if len(set(gpus)) != len(gpus) or len(gpus) != count:
            return (
                f"{chunks} of its chunks get {counted(len(gpus), 'GPU')} of node {node}; they request {count}"
            )
        amount = WHOLE_GPU if wanted is None else thousandths(wanted.share)
        for gpu in gpus:
            if not 0 <= gpu < len(self._gpus[node]):
                return f"node {node} has no GPU {gpu}"
            if wanted is not None and wanted.types:
                found = self._nodes[node].gpus[gpu]
                if found not in wanted.types:
                    return f"GPU {gpu} of node {node} is of type {found}"
            taken[node, gpu] = taken.get((node, gpu), 0) + amount
            if taken[node, gpu] > self._gpus[node][gpu]:
                return f"GPU {gpu} of node {node} is not free"
        return None

    def _change(self, request: Request, shares: Sequence[Share], sign: int) -> None:
        amounts = _amounts(request)
        part = WHOLE_GPU if request.gpus is None or request.exclusive else thousandths(request.gpus.share)
        for name, amount in request.site_resources.items():
            self._of_site[name] += sign * amount
        for node, chunks, gpus in shares:
            self._chunks[node] -= sign * chunks
            room = self._room[node]
            whole = self._has[node] if request.exclusive else {}
            for name, amount in (whole or amounts).items():
                room[name] += sign * (amount if whole else chunks * amount)
            for gpu in range(len(self._gpus[node])) if whole else gpus:
                self._gpus[node][gpu] += sign * part


def _amounts(request: Request) -> dict[str, int]:
    """What one chunk requests of a node, apart from GPUs."""
    found = {CORES: thousandths(request.cores), MEMORY: request.memory_mib, **request.others}
    return {name: amount for name, amount in found.items() if amount}
