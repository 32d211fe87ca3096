"""One pass over the queue for consumable nodes: the first jobs while they fit, then backfilling."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.compiled import Ints, Ints2
from scheduler.free_nodes.consumable_nodes import ConsumableNodes
from scheduler.node_resources.arrays import empty_shadow, new_pass, with_rows
from scheduler.node_resources.kernels.passes import begin_new_pass, go_on
from scheduler.node_resources.kernels.tables import NODE, NONE
from scheduler.node_resources.kernels.workspace import (
    AFTER,
    AT,
    DONE,
    FIRST,
    GPU,
    JOB,
    MORE_ROWS,
    N_PLACED,
    RESERVED_S,
    ROW,
    TAKING,
    WHICH_SCORES,
    Jobs,
    Pass,
)
from scheduler.node_resources.placement import Placement
from scheduler.node_resources.selection import NodeSelection

FEWEST_JOBS, FEWEST_ROWS = 64, 256


class Reservation(NamedTuple):
    """Of the first job that does not fit: its position in the queue, and the time; infinite if never."""

    job: int
    at_s: float


class Passes:
    """Passes over the queue of one state of nodes. A pass leaves the state as it was."""

    def __init__(self, state: ConsumableNodes, selection: NodeSelection) -> None:
        self._state = state
        self._placement = Placement(state.nodes, selection)
        self._shadow = empty_shadow(state.nodes)
        self._pass: Pass = new_pass(FEWEST_JOBS, FEWEST_ROWS)
        self.reservation: Reservation | None = None
        """Of the last pass."""

    def run(self, order: Ints, later: Ints | None, now_s: float) -> list[tuple[int, Ints2]]:
        """The jobs that start in `order`, by position in the queue, and what each uses; with EASY backfilling
        in the order `later`, if any (see `kernels.backfilling.one_pass`)."""
        nodes, waiting = self._state.nodes, self._state.waiting
        self.reservation = None
        if len(waiting) > len(self._pass.placed):
            self._pass = new_pass(2 * len(waiting), len(self._pass.rows))
        begin_new_pass(self._pass)
        try:
            self._decide(order, later, now_s)
            first = int(self._pass.counts[FIRST])
            if later is not None and first != NONE:
                self.reservation = Reservation(first, float(self._pass.times_s[RESERVED_S]))
            return self._placed()
        finally:
            for i, used in reversed(self._placed()):
                nodes.give_back(int(waiting.kinds[i]), used)

    def _decide(self, order: Ints, later: Ints | None, now_s: float) -> None:
        state, nodes, waiting = self._state, self._state.nodes, self._state.waiting
        jobs = Jobs(waiting.kinds, waiting.chunks, waiting.estimates_s)
        ranking = self._placement.ranking
        while True:
            p = self._pass
            why = go_on(
                nodes.table,
                nodes.requests,
                ranking,
                self._shadow,
                jobs,
                len(order),
                order,
                order if later is None else later,
                later is not None,
                state.releases.table,
                state.releases.n,
                state.held,
                now_s,
                p,
            )
            if why == DONE:
                return
            if why == MORE_ROWS:
                self._pass = with_rows(p, 2 * (len(p.rows) + int(waiting.chunks.max())))
            elif why == WHICH_SCORES:
                place_in = order if p.counts[FIRST] == NONE or later is None else later
                self._placement.update(int(waiting.kinds[place_in[p.counts[AT]]]))
            else:
                kind = int(waiting.kinds[p.counts[TAKING]])
                p.counts[GPU] = self._placement.gpu(kind, int(p.rows[p.counts[ROW], NODE]))

    def _placed(self) -> list[tuple[int, Ints2]]:
        n, rows = int(self._pass.counts[N_PLACED]), self._pass.rows
        placed, begin = [], 0
        for i, after in self._pass.placed[:n, [JOB, AFTER]].tolist():
            placed.append((i, rows[begin:after].copy()))
            begin = after
        return placed
