"""One pass over the queue for consumable nodes: the first jobs while they fit, then backfilling."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import Flags, Ints, Ints2
from scheduler.free_nodes.consumable_nodes import ConsumableNodes
from scheduler.model import RunId
from scheduler.node_resources.kernels import shadow as kernels
from scheduler.node_resources.kernels.shadow import Candidates, Shadow
from scheduler.node_resources.selection import NodeSelection, Placement
from scheduler.node_resources.state import NodeResources

MOST_DELAYING = 256
"""So many different requests are remembered, in one pass, to delay the first job."""


class Reservation(NamedTuple):
    """Of the first job that does not fit: its position in the queue, and the time; infinite if never."""

    job: int
    at_s: float


def empty_shadow(nodes: NodeResources) -> Shadow:
    """Room for the state at a reserved time."""
    table, n_nodes = nodes.table, len(nodes.all)
    then = table._replace(
        free=table.free.copy(),
        gpu_free=table.gpu_free.copy(),
        n_chunks=table.n_chunks.copy(),
        site=table.site.copy(),
    )
    is_copied: Flags = np.zeros(n_nodes, dtype=np.bool_)
    copied, fit = np.zeros(n_nodes, dtype=np.int64), np.zeros(n_nodes, dtype=np.int64)
    return Shadow(then, is_copied, copied, fit, np.zeros(4, dtype=np.int64))


class Passes:
    """Passes over the queue of one state of nodes. A pass leaves the state as it was."""

    def __init__(self, state: ConsumableNodes, selection: NodeSelection) -> None:
        self._state = state
        self._placement = Placement(state.nodes, selection)
        self._shadow = empty_shadow(state.nodes)
        self._delaying: Ints2 = np.zeros((MOST_DELAYING, 2), dtype=np.int64)
        self.reservation: Reservation | None = None
        """Of the last pass."""

    def run(self, order: Ints, later: Ints | None, now_s: float) -> list[tuple[int, Ints2]]:
        """The jobs that start, by position in the queue, and what each uses.

        Jobs start in `order` until one does not fit. With `later`, EASY backfilling follows in that order:
        the first job that does not fit has a reservation at the earliest time at which it is expected to fit,
        counting all runs that are expected to end at that time. Another job that fits starts if it is
        expected to end by then, or if the first one still fits at that time.
        """
        placed: list[tuple[int, Ints2]] = []
        self.reservation = None
        try:
            first = self._start_in_order(order, placed)
            if first is not None and later is not None:
                self._reserve(first, placed, now_s)
                self._backfill(later, first, placed, now_s)
            return placed
        finally:
            for i, used in reversed(placed):
                self._state.nodes.give_back(self._kind(i), used)

    def _kind(self, i: int) -> int:
        return int(self._state.waiting.kinds[i])

    def _start_in_order(self, order: Ints, placed: list[tuple[int, Ints2]]) -> int | None:
        """Returns the first job that does not fit."""
        kinds, chunks = self._state.waiting.kinds, self._state.waiting.chunks
        for i in order:
            used = self._placement.place(int(kinds[i]), int(chunks[i]))
            if used is None:
                return int(i)
            placed.append((int(i), used))
        return None

    def _reserve(self, first: int, placed: list[tuple[int, Ints2]], now_s: float) -> None:
        """Jobs that start in this pass count as running."""
        state, waiting = self._state, self._state.waiting
        for x, (i, used) in enumerate(placed):
            state.begin(RunId(-1 - x), now_s + float(waiting.estimates_s[i]), self._kind(i), used)
        releases, nodes = state.releases, state.nodes
        at_s = kernels.reserve(
            nodes.table,
            nodes.requests,
            self._shadow,
            releases.table,
            releases.n,
            state.held,
            self._kind(first),
            int(waiting.chunks[first]),
            now_s,
        )
        for x, (i, _) in enumerate(placed):
            state.end(RunId(-1 - x), now_s + float(waiting.estimates_s[i]))
        self.reservation = Reservation(first, at_s)

    def _backfill(self, order: Ints, first: int, placed: list[tuple[int, Ints2]], now_s: float) -> None:
        assert self.reservation is not None
        nodes, waiting, shadow = self._state.nodes, self._state.waiting, self._shadow
        estimates_s, reserved_s = waiting.estimates_s, self.reservation.at_s
        skipped: Flags = np.zeros(len(estimates_s), dtype=np.bool_)
        skipped[[first, *(i for i, _ in placed)]] = True
        jobs = Candidates(waiting.kinds, waiting.chunks, estimates_s, order, skipped, self._delaying)
        n_delaying, x, end = 0, -1, len(order)
        while True:
            x = kernels.next_candidate(
                nodes.table, nodes.requests, jobs, x + 1, n_delaying, now_s, reserved_s
            )
            if x == end:
                return
            i = int(order[x])
            kind, chunks = int(jobs.kinds[i]), int(jobs.chunks[i])
            used = self._placement.best(kind, chunks)
            assert used is not None
            kernels.copy_rows(nodes.table, nodes.requests, shadow, used)
            self._placement.take(kind, used)
            in_time = now_s + float(estimates_s[i]) <= reserved_s
            if in_time or not kernels.would_delay(nodes.requests, shadow, kind, used):
                placed.append((i, used))
                n_delaying = 0
            else:
                nodes.give_back(kind, used)
                if n_delaying < len(self._delaying):  # otherwise it is tried again
                    self._delaying[n_delaying] = kind, chunks
                    n_delaying += 1
