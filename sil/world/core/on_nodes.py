"""The compiled loop on nodes of which jobs use parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.core.codes import CONSERVATIVE, QueuePolicy
from scheduler.node_resources.core.codes import CORES, ONE, WHOLE
from scheduler.node_resources.core.easy import EasyRule
from scheduler.node_resources.core.on_nodes import OnNodes
from scheduler.node_resources.core.placement import Ranking
from scheduler.node_resources.core.reserving import ReservingRule
from scheduler.node_resources.described import DescribedNodes
from scheduler.node_resources.selection import NodeSelection, weights_of
from sil.world.core.jobs import Jobs
from sil.world.core.loop import Replay

TAB, SPACE, COMMA, COLON, AT_SIGN = b"\t ,:@"


def queue_on_nodes(nodes: DescribedNodes, selection: NodeSelection, policy: QueuePolicy) -> OnNodes:
    """An empty one. The selection must be a compiled one."""
    queue, weights = OnNodes(nodes.state, policy), weights_of(selection, nodes)
    if policy.backfilling == CONSERVATIVE:
        window = nodes.state.alongside()
        queue.rule = ReservingRule(queue, Ranking(window, selection.code, weights))
    else:
        queue.rule = EasyRule(queue, Ranking(nodes.state, selection.code, weights))
    return queue


class ReplayOnNodes(Replay):
    """A job uses chunks and GPUs of nodes."""

    def __init__(self, jobs: Jobs, nodes: OnNodes, ranks: Sequence[int], by: int, room: int) -> None:
        Replay.__init__(self, jobs, nodes, ranks, by, room)
        self.nodes, self.marks = nodes, np.zeros(nodes.nodes.n_nodes, np.uint8)

    def note_use(self, x: int) -> None:
        """The nodes; a tab; what is used of each; a tab; the cores of whole nodes, if requested."""
        q, facts = self.nodes, self.facts
        begin, after = q.row_before(x), q.after[x]
        self.note_nodes(begin, after)
        for row in range(begin, after):
            facts.byte(SPACE if row > begin else TAB)
            self.note_share(row)
        facts.byte(TAB)
        if q.nodes.kinds.exclusive[q.kind[q.placed[x]]]:
            facts.number(self.whole_cores(begin, after))

    def note_nodes(self, begin: int, after: int) -> None:
        """The nodes in some rows, in order."""
        node, marks = self.nodes.rows.node, self.marks
        lowest, highest = node[begin], node[begin]
        for row in range(begin, after):
            n = node[row]
            marks[n] = True
            lowest, highest = min(lowest, n), max(highest, n)
        first = lowest
        for n in range(lowest, highest + 1):
            if marks[n] and (n == highest or not marks[n + 1]):
                self.facts.nodes(first, n, first == lowest)
            if not marks[n]:
                first = n + 1
        for row in range(begin, after):
            marks[node[row]] = False

    def note_share(self, row: int) -> None:
        """Node, chunks and GPUs, as in `7:2@0,1`."""
        facts, rows, separator = self.facts, self.nodes.rows, AT_SIGN
        facts.number(rows.node[row])
        facts.byte(COLON)
        facts.number(rows.chunks[row])
        for d in range(self.nodes.nodes.n_gpus):
            if (rows.gpus[row] >> d) & ONE:
                facts.byte(separator)
                facts.number(d)
                separator = COMMA

    def whole_cores(self, begin: int, after: int) -> int:
        """Of whole nodes, rounded half to even."""
        total = 0
        for row in range(begin, after):
            total += self.nodes.nodes.capacity[self.nodes.rows.node[row], CORES]
        cores, rest = total // WHOLE, total % WHOLE
        if 2 * rest > WHOLE or (2 * rest == WHOLE and cores % 2 == 1):
            cores += 1
        return cores
