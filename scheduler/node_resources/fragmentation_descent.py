"""The node selection by fragmentation, and the typical jobs that define it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from scheduler.core.arrays import Floats2, Ints
from scheduler.node_request import thousandths
from scheduler.node_resources.core.fragmentation import Typical
from scheduler.node_resources.selection import NodeSelection
from scheduler.node_resources.state import NodeResources


class Chunk(NamedTuple):
    """What a job requests of a node, as far as fragmentation is concerned; `gpu_types` like `A100|H100`."""

    cores: int  # thousandths
    gpu_share: int  # thousandths
    gpus: int
    gpu_types: str


TYPICAL_SHARE = 0.95
"""Typical chunks are the most frequent ones which are together at least this share of all."""


def typical_chunks(counts: Mapping[Chunk, int], nodes: NodeResources) -> Typical:
    """The most frequent chunks in this order, and their shares of these. Ties: the larger first."""
    by_count = sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True)
    so_far = np.cumsum([count for _, count in by_count])
    n = int(np.searchsorted(so_far, TYPICAL_SHARE * so_far[-1])) + 1 if len(so_far) else 0
    chunks = [chunk for chunk, _ in by_count[:n]]
    types = [nodes.gpu_type_bits(filter(None, chunk.gpu_types.split("|"))) for chunk in chunks]
    return Typical(
        np.array([chunk.cores for chunk in chunks], np.int64),
        np.array([chunk.gpus for chunk in chunks], np.int64),
        np.array([chunk.gpu_share for chunk in chunks], np.int64),
        np.array(types, np.int64),
        np.array([count / so_far[n - 1] for _, count in by_count[:n]], np.float64),
    )


class FragmentationDescent(NodeSelection):
    """Fragmentation gradient descent: the node, and the GPU, whose expected fragmentation grows least.

    Source: Weng et al., "Beware of Fragmentation", USENIX ATC 2023.
    """

    def __init__(self, typical: Typical | None = None, in_steps: bool = False) -> None:
        """`typical`: the typical chunks; by default those of the jobs that arrived, determined again whenever
        their number has doubled. `in_steps`: scores are whole numbers, as in the authors' scheduler."""
        self._typical, self._in_steps = typical, in_steps
        self._is_given = typical is not None
        self._epoch = -1

    def score(self, nodes: NodeResources, kind: int, which: Ints, scores: Floats2) -> None:
        self._typical_on(nodes).write_descents(nodes.state, self._in_steps, kind, which, scores)

    def gpu(self, nodes: NodeResources, kind: int, n: int) -> int:
        return self._typical_on(nodes).gpu(nodes.state, self._in_steps, kind, n)

    def epoch(self, nodes: NodeResources) -> int:
        return 0 if self._is_given else int(nodes.total_requested).bit_length()

    def _typical_on(self, nodes: NodeResources) -> Typical:
        epoch = self.epoch(nodes)
        if self._typical is None or (epoch != self._epoch and not self._is_given):
            self._typical, self._epoch = typical_chunks(chunks_requested(nodes), nodes), epoch
        return self._typical


def chunks_requested(nodes: NodeResources) -> Counter[Chunk]:
    """How often each chunk was requested so far."""
    counts = Counter[Chunk]()
    for request, n_requested in nodes.requested.values():
        gpus, cores = request.gpus, thousandths(request.cores)
        if gpus is None:
            chunk = Chunk(cores, 0, 0, "")
        else:
            chunk = Chunk(cores, thousandths(gpus.share), gpus.count, "|".join(sorted(gpus.types)))
        counts[chunk] += n_requested
    return counts
