"""Node selections: which of the nodes on which a job fits it gets. One class for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from pkgutil import resolve_name
from typing import Any, NamedTuple

import numpy as np

from scheduler.core.arrays import Floats, Floats2, Ints, Ints2
from scheduler.naming import Misnamed, nearest
from scheduler.node_request import thousandths
from scheduler.node_resources.core import codes
from scheduler.node_resources.core.codes import NONE
from scheduler.node_resources.core.fragmentation import Typical
from scheduler.node_resources.core.placement import Ranking, Rows, write_scores
from scheduler.node_resources.described import DescribedNodes
from scheduler.node_resources.state import NodeResources

_MODULE = "scheduler.node_resources.selection"

SELECTIONS = {
    "first_fit": f"{_MODULE}:FirstFit",
    "consecutive": f"{_MODULE}:Consecutive",
    "best_fit": f"{_MODULE}:BestFit",
    "worst_fit": f"{_MODULE}:WorstFit",
    "dot_product": f"{_MODULE}:DotProduct",
    "gpu_packing": f"{_MODULE}:GpuPacking",
    "gpu_clustering": f"{_MODULE}:GpuClustering",
    "fgd": f"{_MODULE}:FragmentationDescent",
}


def checked_name(name: str) -> str:
    """The name itself, if it is one of SELECTIONS, or "module:Class" of a usable class. Raises Misnamed."""
    if ":" in name:
        selection_by_name(name)
    elif name not in SELECTIONS:
        expected = f"expected one of {', '.join(SELECTIONS)}, or module:Class{nearest(name, SELECTIONS)}"
        raise Misnamed(f"'{name}' is no node selection; {expected}")
    return name


def selection_by_name(name: str) -> NodeSelection:
    """A new selection: one of SELECTIONS, or of "module:Class". Raises Misnamed."""
    target = SELECTIONS.get(name, name)
    try:
        made: Any = resolve_name(target)()
    except Exception as error:
        raise Misnamed(
            f"node selection '{name}' cannot be loaded: {type(error).__name__}: {error}; expected "
            f"module:Class, whose constructor needs no arguments"
        ) from error
    if not isinstance(made, NodeSelection):
        raise Misnamed(f"node selection '{name}' is no subclass of {_MODULE}.NodeSelection")
    return made


class NodeSelection(ABC):
    """Scores nodes for one chunk of a request. The highest score is taken. Ties: the lowest node.

    A score may depend only on the request and the state of the node, since scores are computed again only for
    nodes that changed.
    """

    code = codes.IN_PYTHON
    """The code of the compiled selection, if it is one."""

    @property
    def is_compiled(self) -> bool:
        return self.code != codes.IN_PYTHON

    @abstractmethod
    def score(self, nodes: NodeResources, kind: int, which: Ints, scores: Floats2) -> None:
        """Write the scores of the nodes in `which` for requests of this kind to `scores[kind]`.

        Where no chunk fits (`nodes.state.fit[kind]` is 0), the score has no meaning.
        """

    def gpu(self, nodes: NodeResources, kind: int, n: int) -> int:
        """The GPU of node n of which to take a part; NONE: the one with the least left."""
        return NONE

    def epoch(self, nodes: NodeResources) -> int:
        """Scores of an earlier epoch are no longer valid."""
        return 0


class _Compiled(NodeSelection):
    def weights(self, nodes: DescribedNodes) -> Floats:
        return np.zeros(len(nodes.table.largest))

    def score(self, nodes: NodeResources, kind: int, which: Ints, scores: Floats2) -> None:
        write_scores(nodes.state, self.code, self.weights(nodes), kind, which, scores)


class _InOrder(_Compiled):
    def score(self, nodes: NodeResources, kind: int, which: Ints, scores: Floats2) -> None:
        return


class FirstFit(_InOrder):
    """Takes the lowest nodes."""

    code = codes.FIRST_FIT


class Consecutive(_InOrder):
    """Takes nodes of the set of consecutive ones with fewest free CPUs that suffices, as Slurm does without a
    topology."""

    code = codes.CONSECUTIVE


class _Weighted(_Compiled):
    """Weights resources equally if no `weights` are given."""

    def __init__(self, weights: Iterable[float] | None = None) -> None:
        self._weights = None if weights is None else np.fromiter(weights, float)

    def weights(self, nodes: DescribedNodes) -> Floats:
        if self._weights is None:
            present = nodes.table.largest > 0
            self._weights = present / max(present.sum(), 1)
        return self._weights


class DotProduct(_Weighted):
    """Prefers the node with the smallest dot product of what is left and what is requested.

    Both relative to the largest node, as in Weng et al. 2023."""

    code = codes.DOT_PRODUCT


class BestFit(_Weighted):
    """Prefers the node on which the least is left afterwards."""

    code = codes.BEST_FIT


class WorstFit(_Weighted):
    """Prefers the node on which the most is left afterwards: spreads jobs."""

    code = codes.WORST_FIT


class GpuPacking(_Compiled):
    """Prefers GPUs in use to untouched ones, and nodes with GPUs in use to idle ones (Weng et al. 2022)."""

    code = codes.GPU_PACKING


class GpuClustering(_Compiled):
    """Prefers nodes on which jobs of the same number of GPUs run, and no others (Xiao et al. 2018)."""

    code = codes.GPU_CLUSTERING


class Placement(Ranking):
    """Chooses nodes by a node selection, and keeps the scores."""

    def __init__(self, nodes: NodeResources, selection: NodeSelection) -> None:
        super().__init__(nodes.state, selection.code, weights_of(selection, nodes))
        self._nodes, self._selection, self._epoch = nodes, selection, 0

    def begin(self) -> None:
        """Forget scores of an earlier epoch."""
        epoch = self._selection.epoch(self._nodes)
        if epoch != self._epoch:
            np.asarray(self.seen)[:] = 0
            self._epoch = epoch

    def place(self, kind: int, chunks: int) -> Ints2 | None:
        """Take the best nodes for a job: rows of NODE, CHUNKS, GPUS; None if it does not fit now."""
        if not self._nodes.fits(kind, chunks):
            return None
        self.begin()
        rows = Rows()
        self.take_best(kind, chunks, rows)
        return rows.table(0, rows.n)

    def score_in_python(self, kind: int) -> None:
        self.begin()
        which = self.state.changed_since(self.seen[kind])
        if len(which):
            self._selection.score(self._nodes, kind, which, np.asarray(self.scores))

    def gpu(self, kind: int, n: int) -> int:
        return self._selection.gpu(self._nodes, kind, n)


def weights_of(selection: NodeSelection, nodes: DescribedNodes) -> Floats:
    """The weights of a compiled selection; zero for others."""
    if isinstance(selection, _Compiled):
        return selection.weights(nodes)
    return np.zeros(len(nodes.table.largest))


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
