"""Node selections: which of the nodes on which a job fits it gets. One class for each.

Fragmentation gradient descent is in `fragmentation_descent`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.core.arrays import Floats, Floats2, Ints, Ints2
from scheduler.naming import Misnamed, nearest
from scheduler.node_resources.core import codes
from scheduler.node_resources.core.codes import NONE
from scheduler.node_resources.core.placement import Ranking, Rows, write_scores
from scheduler.node_resources.described import DescribedNodes

if TYPE_CHECKING:
    from scheduler.node_resources.state import NodeResources


_MODULE = "scheduler.node_resources.selection"

SELECTIONS = {
    "first_fit": f"{_MODULE}:FirstFit",
    "best_fit": f"{_MODULE}:BestFit",
    "worst_fit": f"{_MODULE}:WorstFit",
    "dot_product": f"{_MODULE}:DotProduct",
    "gpu_packing": f"{_MODULE}:GpuPacking",
    "gpu_clustering": f"{_MODULE}:GpuClustering",
    "fgd": "scheduler.node_resources.fragmentation_descent:FragmentationDescent",
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
        """Of which GPU of node n to take a part; NONE: of the one with the least left."""
        return NONE

    def epoch(self, nodes: NodeResources) -> int:
        """Scores of an earlier epoch are no longer valid."""
        return 0


class _Compiled(NodeSelection):
    def weights(self, nodes: DescribedNodes) -> Floats:
        return np.zeros(len(nodes.table.largest))

    def score(self, nodes: NodeResources, kind: int, which: Ints, scores: Floats2) -> None:
        write_scores(nodes.state, self.code, self.weights(nodes), kind, which, scores)


class FirstFit(_Compiled):
    """Takes the lowest nodes."""

    code = codes.FIRST_FIT

    def score(self, nodes: NodeResources, kind: int, which: Ints, scores: Floats2) -> None:
        return


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
