"""What runs hold, for the fast check of traces: whole machines, or parts of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import polars as pl
import pyarrow as pa

from scheduler.compiled import Ints, allocate
from scheduler.node_request import Gpus, Node, Request, thousandths
from sil.trace.fact_columns import FactColumns, Places
from sil.trace.requests import request_of
from sil.trace.stream import COMPATIBLE
from sil.world.node_usage import WHOLE_GPU

if TYPE_CHECKING:
    from sil.outcome.invariants.kernels.clean_facts import Chunk, Running

LARGEST = 2**62
"""Greater amounts count as this one: what fits on an empty node is computed from the amounts themselves."""


class Held(Protocol):
    """What the fast check of traces needs to know of machines."""

    def requests(self, facts: FactColumns, arrivals: Places) -> Ints:
        """The number of the request of each job that arrives."""
        ...

    def texts(self, facts: FactColumns, starts: Places) -> pa.LargeStringArray:
        """What each run that starts holds."""
        ...

    def are_clean(self, chunk: Chunk, running: Running, place_of: Ints, counts: Ints) -> bool:
        """See `sil.outcome.invariants.kernels.clean_facts`."""
        ...


class HeldMachines:
    """Machines that hold one run each."""

    def __init__(self, n_machines: int) -> None:
        from sil.outcome.invariants.kernels.whole_machines import WholeMachines, are_clean

        self._n_machines, self._are_clean = n_machines, are_clean
        words = n_machines // 64 + 1
        self._state = allocate(WholeMachines, words, words)

    def requests(self, facts: FactColumns, arrivals: Places) -> Ints:
        return np.zeros(len(arrivals), np.int64)

    def texts(self, facts: FactColumns, starts: Places) -> pa.LargeStringArray:
        return facts.texts("machines", starts)

    def are_clean(self, chunk: Chunk, running: Running, place_of: Ints, counts: Ints) -> bool:
        return self._are_clean(self._state, chunk, self._n_machines, running, place_of, counts)


class HeldShares:
    """Nodes of which runs use cores, memory and GPUs, and resources of the whole site."""

    def __init__(self, nodes: Sequence[Node], site_resources: Mapping[str, int]) -> None:
        from sil.outcome.invariants.kernels.node_shares import N_OF_REQUEST, NodeShares, are_clean

        self._are_clean = are_clean
        self._specifications = {node.specification: node for node in nodes}
        self._others = sorted({name for node in nodes for name in node.others})
        self._site_resources = site_resources
        self._bit_of = {gpu: 1 << x for x, gpu in enumerate(sorted({gpu for n in nodes for gpu in n.gpus}))}
        self._number_of: dict[str, int] = {}
        """By the text of a request."""
        n, n_others, n_gpus = len(nodes), len(self._others), max(len(node.gpus) for node in nodes)
        self._state = allocate(
            NodeShares, n, n, n, n, (n, 2 + n_others), (n, n_gpus), (n, n_gpus), n, len(site_resources),
            (0, N_OF_REQUEST), (0, 2 + n_others), (0, len(site_resources)), (0, len(self._specifications)),
        )  # fmt: skip
        number_of = {specification: x for x, specification in enumerate(self._specifications)}
        for x, node in enumerate(nodes):
            self._state.specification[x] = number_of[node.specification]
            self._state.room[x] = self._amounts(node)
            self._state.gpus[x, : len(node.gpus)] = WHOLE_GPU
            self._state.gpu_types[x, : len(node.gpus)] = [self._bit_of[gpu] for gpu in node.gpus]
        self._state.of_site[:] = _counted(site_resources.values())

    def requests(self, facts: FactColumns, arrivals: Places) -> Ints:
        if not len(arrivals):
            return np.zeros(0, np.int64)
        details = facts.frame(["detail"], arrivals)["detail"].fill_null("{}")
        texts = details.unique().to_list()
        if new := sorted(set(texts) - self._number_of.keys()):
            self._number_of |= {text: len(self._number_of) + x for x, text in enumerate(new)}
            self._add(list(map(request_of, new)))
        numbers = [self._number_of[text] for text in texts]
        return details.replace_strict(texts, numbers, return_dtype=pl.Int64).to_numpy(writable=True)

    def texts(self, facts: FactColumns, starts: Places) -> pa.LargeStringArray:
        text = pl.concat_str("machines", "detail", separator="\t", ignore_nulls=False)
        texts = facts.frame(["machines", "detail"], starts).select(text).to_series()
        return texts.to_arrow(compat_level=COMPATIBLE)

    def are_clean(self, chunk: Chunk, running: Running, place_of: Ints, counts: Ints) -> bool:
        return self._are_clean(self._state, chunk, len(self._state.down), running, place_of, counts)

    def _add(self, requests: Sequence[Request]) -> None:
        nodes, of_site, state = self._specifications.values(), self._site_resources, self._state
        rows = {
            "requests": [self._request(request) for request in requests],
            "amounts": [self._amounts(request) for request in requests],
            "site_amounts": [
                _counted(request.site_resources.get(name, 0) for name in of_site) for request in requests
            ],
            "most": [
                _counted(0 if request.beyond(of_site) else request.chunks_on(node) for node in nodes)
                for request in requests
            ],
        }
        longer = {
            name: np.concatenate([getattr(state, name), np.array(new, np.int64)])
            for name, new in rows.items()
        }
        self._state = state._replace(**longer)

    def _request(self, request: Request) -> list[int]:
        gpus = Gpus() if request.gpus is None else request.gpus
        wanted = 0 if request.gpus is None else request.gpus.count
        types = sum(self._bit_of.get(gpu, 0) for gpu in gpus.types or self._bit_of)
        return _counted([request.chunks, request.exclusive, wanted, thousandths(gpus.share), types])

    def _amounts(self, of: Node | Request) -> list[int]:
        others = (of.others.get(name, 0) for name in self._others)
        return _counted([thousandths(of.cores), of.memory_mib, *others])


def _counted(amounts: Iterable[int]) -> list[int]:
    return [min(amount, LARGEST) for amount in amounts]
