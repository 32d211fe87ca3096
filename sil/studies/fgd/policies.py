"""The six policies of the paper's simulator: whole-number scores, of which ties go to the lowest rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import numpy as np

from scheduler.compiled import Floats2, Ints, Ints2
from scheduler.node_resources.fragmentation_descent import Chunk, FragmentationDescent, typical_chunks
from scheduler.node_resources.kernels.fragmentation import Typical
from scheduler.node_resources.selection import (
    BestFit,
    DotProduct,
    GpuClustering,
    GpuPacking,
    NodeSelection,
    Placement,
)
from scheduler.node_resources.state import NodeResources
from sil.workload.tables import MILLI, Pod

WEIGHTS = (0.5, 0.0, 0.5)
"""Of cores, memory and GPUs in DotProd and BestFit."""


class Places(Protocol):
    """A policy at work on nodes."""

    def place(self, kind: int, chunks: int) -> Ints2 | None:
        """Take the nodes for a pod; None if it does not fit."""
        ...


class WholeNumbers(NodeSelection):
    """Another selection, with its scores rounded."""

    def __init__(self, selection: NodeSelection, rounded: np.ufunc) -> None:
        self._selection, self._rounded = selection, rounded

    def score(self, nodes: NodeResources, kind: int, which: Ints, scores: Floats2) -> None:
        self._selection.score(nodes, kind, which, scores)
        self._rounded(scores[kind], scores[kind])  # the whole row: whole numbers stay as they are


class Random:
    """Any node on which the pod fits, and any of its GPUs that will do, all equally likely."""

    def __init__(self, nodes: NodeResources, seed: int) -> None:
        self._nodes, self._rng = nodes, np.random.default_rng(seed)

    def place(self, kind: int, chunks: int) -> Ints2 | None:
        nodes = self._nodes
        if not nodes.fits(kind, chunks):
            return None
        used = np.zeros((1, 3), dtype=np.int64)
        used[0, :2] = self._any(nodes.where_fits(kind)), chunks
        nodes.take(kind, used, lambda n: self._any(nodes.gpus_that_fit(kind, n)))
        return used

    def _any(self, which: Ints) -> int:
        """As `choice` of the generator draws, which takes longer than all else."""
        return int(which[self._rng.integers(len(which))])


POLICIES = ("Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD")
EXACT = POLICIES[1:]
"""Without random numbers."""


def policy(name: str, nodes: NodeResources, pods: Mapping[str, Pod], seed: int) -> Places:
    """`pods` are those of the workload, of which FGD knows the typical ones."""
    selections: dict[str, Callable[[], NodeSelection]] = {
        "DotProd": lambda: WholeNumbers(DotProduct(WEIGHTS), np.floor),
        "GpuClustering": lambda: WholeNumbers(GpuClustering(), np.floor),
        "GpuPacking": lambda: WholeNumbers(GpuPacking(), np.ceil),
        "BestFit": lambda: WholeNumbers(BestFit(WEIGHTS), np.floor),
        "FGD": lambda: FragmentationDescent(typical_pods(pods.values(), nodes), in_steps=True),
    }
    return Random(nodes, seed) if name == "Random" else Placement(nodes, selections[name]())


def typical_pods(pods: Iterable[Pod], nodes: NodeResources) -> Typical:
    return typical_chunks(Counter(map(_chunk, pods)), nodes)


def _chunk(pod: Pod) -> Chunk:
    gpus, cores = pod.request.gpus, round(MILLI * pod.request.cores)
    if gpus is None:
        return Chunk(cores, 0, 0, "")
    return Chunk(cores, round(MILLI * gpus.share), gpus.count, pod.gpu_spec)
