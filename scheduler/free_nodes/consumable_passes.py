"""Passes of schedulers over the jobs that wait for nodes of which they use parts."""

from __future__ import annotations

from math import inf

import numpy as np

from scheduler.core.codes import CONSERVATIVE, FCFS
from scheduler.free_nodes.consumable_nodes import ConsumableNodes
from scheduler.model import Start
from scheduler.node_resources.core.codes import NODE
from scheduler.node_resources.core.easy import EasyRule
from scheduler.node_resources.core.reserving import ReservingRule
from scheduler.node_resources.selection import NodeSelection, Placement
from scheduler.node_resources.state import shares_of
from scheduler.node_set import NodeSet


def _starts(state: ConsumableNodes, n: int, now_s: float) -> tuple[Start, ...]:
    """The n jobs of a decision."""
    if not n:
        return ()
    q, starts, begin = state.queue, list[Start](), 0
    for x, i in enumerate(state.waiting.places(np.asarray(q.placed)[:n]).tolist()):
        used = q.rows.table(begin, q.after[x])
        end_s = now_s + q.estimate_s[q.placed[x]]
        starts.append(Start(i, NodeSet.of(set(used[:, NODE].tolist())), end_s, shares_of(used)))
        begin = q.after[x]
    return tuple(starts)


class EasyPasses:
    """FCFS, SJF and EASY. A pass leaves the state of the nodes as it was."""

    def __init__(self, state: ConsumableNodes, selection: NodeSelection) -> None:
        self.state, self._placement = state, Placement(state.nodes, selection)
        self._rule = EasyRule(state.queue, self._placement)

    def starts(self, ordering: int, backfilling: int, now_s: float) -> tuple[Start, ...]:
        """The jobs that start by these policies, in order."""
        self._placement.begin()
        try:
            return _starts(self.state, self._rule.decide(ordering, backfilling, now_s), now_s)
        finally:
            self.state.queue.undo()

    @property
    def reserved_s(self) -> float:
        """When the first job of the last pass that does not fit has a reservation; infinite = never."""
        return self._rule.reserved_s


class ReservingPasses:
    """Conservative backfilling. The reservations are kept from pass to pass."""

    def __init__(self, state: ConsumableNodes, selection: NodeSelection) -> None:
        """What is free throughout some time is another state of the same nodes."""
        self.state, self._window = state, state.nodes.alongside()
        self._placement = Placement(self._window, selection)
        self._rule = ReservingRule(state.queue, self._placement)
        self._down: frozenset[int] = frozenset()

    def starts(self, now_s: float) -> tuple[Start, ...]:
        """Reserve for each job, in order of service; the jobs whose time has come start."""
        nodes = self.state.nodes
        self._window.total_requested = nodes.total_requested
        self._placement.begin()
        for node in sorted(nodes.down ^ self._down):
            self._rule.toggle(node)
        self._down = frozenset(nodes.down)
        return _starts(self.state, self._rule.decide(FCFS, CONSERVATIVE, now_s), now_s)

    @property
    def starts_s(self) -> list[float]:
        """The reserved start of each waiting job, in order; infinite for those that start or have none."""
        return [self._rule.start_s[slot] for slot in self.state.waiting.slots.tolist()]

    @property
    def first_reserved_s(self) -> float:
        return self._rule.first_reserved_s if len(self.state.waiting) else inf
