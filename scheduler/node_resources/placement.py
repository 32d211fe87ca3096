"""Choosing the nodes of one job at a time."""

from __future__ import annotations

import numpy as np

from scheduler.compiled import Ints2
from scheduler.node_resources.kernels.workspace import Ranking
from scheduler.node_resources.selection import NodeSelection, new_ranking
from scheduler.node_resources.state import NodeResources


class Placement:
    """Chooses nodes by a node selection, and keeps the scores."""

    def __init__(self, nodes: NodeResources, selection: NodeSelection) -> None:
        self._nodes, self._selection = nodes, selection
        self._ranking = new_ranking(nodes, selection)
        self._epoch = 0

    @property
    def ranking(self) -> Ranking:
        """With room for all kinds of requests, and without scores of an earlier epoch."""
        ranking, n_kinds = self._ranking, len(self._nodes.requests.gpus)
        n_before = len(ranking.seen)
        if n_kinds > n_before:
            larger = new_ranking(self._nodes, self._selection)
            larger.scores[:n_before], larger.seen[:n_before] = ranking.scores, ranking.seen
            ranking = self._ranking = larger
        epoch = self._selection.epoch(self._nodes)
        if epoch != self._epoch:
            ranking.seen[:] = 0
            self._epoch = epoch
        return ranking

    def place(self, kind: int, chunks: int) -> Ints2 | None:
        """Take the best nodes for a job: rows of NODE, CHUNKS, GPUS; None if it does not fit now."""
        nodes = self._nodes
        if not nodes.fits(kind, chunks):
            return None
        self.update(kind)
        from scheduler.node_resources.kernels.placing import choose_nodes  # compiled

        rows: Ints2 = np.zeros((nodes.most_rows(kind, chunks), 3), dtype=np.int64)
        used = rows[: choose_nodes(nodes.requests, self._ranking, kind, chunks, rows, 0)]
        if nodes.takes_parts_of_gpus(kind):
            nodes.take(kind, used, lambda n: self.gpu(kind, n))
        else:
            nodes.take(kind, used)
        return used

    def update(self, kind: int) -> None:
        """Bring the scores for a kind of request, whose `fit` is up to date, up to date."""
        nodes, ranking = self._nodes, self.ranking
        which = nodes.changed_since(int(ranking.seen[kind]))
        if len(which):
            self._selection.score(nodes, kind, which, ranking.scores)
            ranking.seen[kind] = nodes.clock

    def gpu(self, kind: int, n: int) -> int:
        """Of which GPU of node n to take a part; NONE: of the one with the least left."""
        return self._selection.gpu(self._nodes, kind, n)
