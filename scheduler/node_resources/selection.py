"""Node selections: which of the nodes on which a job fits it gets. One class for each.

Fragmentation gradient descent is in `fragmentation_descent`, with compiled code that others do without.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from scheduler.compiled import Floats, Floats2, Ints
from scheduler.node_resources.described import DescribedNodes
from scheduler.node_resources.kernels import scores as codes
from scheduler.node_resources.kernels.tables import NONE
from scheduler.node_resources.kernels.workspace import Ranking

if TYPE_CHECKING:  # which loads compiled functions
    from scheduler.node_resources.state import NodeResources


class NodeSelection(ABC):
    """Scores nodes for one chunk of a request. The highest score is taken. Ties: the lowest node.

    A score may depend only on the request and the state of the node, since scores are computed again only for
    nodes that changed.
    """

    code = codes.IN_PYTHON
    """Of the compiled selection, if it is one."""

    @property
    def is_compiled(self) -> bool:
        return self.code != codes.IN_PYTHON

    @abstractmethod
    def score(self, nodes: NodeResources, kind: int, which: Ints, scores: Floats2) -> None:
        """Write the scores of the nodes in `which` for requests of this kind to `scores[kind]`.

        Where no chunk fits (`nodes.requests.fit[kind]` is 0), the score has no meaning.
        """

    def gpu(self, nodes: NodeResources, kind: int, n: int) -> int:
        """Of which GPU of node n to take a part; NONE: of the one with the least left."""
        return NONE

    def epoch(self, nodes: NodeResources) -> int:
        """Scores of an earlier epoch are no longer valid."""
        return 0


class _Compiled(NodeSelection):
    """A selection with a `code`."""

    def weights(self, nodes: DescribedNodes) -> Floats:
        """Of cores, memory, the site's own resources and, last, GPUs."""
        return np.zeros(len(nodes.table.largest))

    def score(self, nodes: NodeResources, kind: int, which: Ints, scores: Floats2) -> None:
        from scheduler.node_resources.kernels.placing import write_scores  # compiled

        write_scores(nodes.table, nodes.requests, self.code, self.weights(nodes), kind, which, scores)


class FirstFit(_Compiled):
    """The lowest nodes."""

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
    """The node with the smallest dot product of what is left and what is requested.

    Both relative to the largest node, as in Weng et al. 2023.
    """

    code = codes.DOT_PRODUCT


class BestFit(_Weighted):
    """The node on which the least is left afterwards."""

    code = codes.BEST_FIT


class WorstFit(_Weighted):
    """The node on which the most is left afterwards: spreads jobs."""

    code = codes.WORST_FIT


class GpuPacking(_Compiled):
    """GPUs in use before untouched ones, and nodes with GPUs in use before idle ones (Weng et al. 2022)."""

    code = codes.GPU_PACKING


class GpuClustering(_Compiled):
    """Nodes on which jobs of the same number of GPUs run, preferably no others (Xiao et al. 2018)."""

    code = codes.GPU_CLUSTERING


def new_ranking(nodes: DescribedNodes, selection: NodeSelection) -> Ranking:
    """Without any scores."""
    weights = selection.weights(nodes) if isinstance(selection, _Compiled) else np.zeros(0)
    n_kinds, n_nodes = nodes.requests.fit.shape
    return Ranking(
        np.array([selection.code]),
        weights,
        np.zeros((n_kinds, n_nodes)),
        np.zeros(n_kinds, dtype=np.int64),
        np.zeros(n_nodes, dtype=np.int64),
    )
