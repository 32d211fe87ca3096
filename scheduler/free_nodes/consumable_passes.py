"""Passes of schedulers over the jobs that wait for nodes of which they use parts."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Generic, TypeVar

import numpy as np

from scheduler.compiled import Ints, handle
from scheduler.free_nodes.consumable_in_use import in_places
from scheduler.free_nodes.consumable_nodes import ConsumableNodes
from scheduler.free_nodes.kernels.on_nodes import EasyQueue, ReservingQueue
from scheduler.free_nodes.node_arrays import new_reservations, new_shadow, with_room
from scheduler.model import Start
from scheduler.node_resources.kernels.reservations import Reservations
from scheduler.node_resources.kernels.tables import NODE
from scheduler.node_resources.kernels.workspace import DONE, WHICH_SCORES, Shadow
from scheduler.node_resources.selection import NodeSelection, Placement
from scheduler.node_resources.state import NodeResources, shares_of
from scheduler.node_set import NodeSet

E = TypeVar("E", EasyQueue, ReservingQueue)


class _Passes(Generic[E]):
    """For one state of nodes, which a pass leaves as it was."""

    def __init__(self, state: ConsumableNodes, nodes: NodeResources, selection: NodeSelection) -> None:
        self.state, self._selection, self._placement = state, selection, Placement(nodes, selection)
        self._queue: E | None = None
        self._handle: Any = None

    def _describe(self, queue: E) -> None:
        """The handle is that of these arrays."""
        if self._queue is None or any(a is not b for a, b in zip(queue, self._queue, strict=True)):
            self._queue, self._handle = queue, handle(queue)

    def _decide(self, go_on: Callable[[], int], now_s: float) -> tuple[Start, ...]:
        """The jobs that start, once all is decided that Python is asked for."""
        on = self.state.queue.arrays.on
        p = on.decided
        while (why := go_on()) != DONE:
            kind = on.kind.item(p.taking.item())
            if why == WHICH_SCORES:
                self._placement.update(kind)
            else:
                p.gpu[0] = self._placement.gpu(kind, p.rows.item(p.row.item(), NODE))
        starts, begin, n = list[Start](), 0, p.n_placed.item()
        place_of = in_places(self.state.waiting.slots, len(on.kind)) if n else np.empty(0)
        for slot, after in zip(p.placed[:n].tolist(), p.after[:n].tolist(), strict=True):
            used = p.rows[begin:after]
            nodes, end_s = NodeSet.of(set(used[:, NODE].tolist())), now_s + on.estimate_s.item(slot)
            starts.append(Start(int(place_of[slot]), nodes, end_s, shares_of(used)))
            begin = after
        return tuple(starts)


class EasyPasses(_Passes[EasyQueue]):
    """FCFS, SJF and EASY."""

    def __init__(self, state: ConsumableNodes, selection: NodeSelection) -> None:
        from scheduler.free_nodes.kernels import easy_entry_points  # compiled

        super().__init__(state, state.nodes, selection)
        self._kernels = easy_entry_points
        self._shadow: Shadow = new_shadow(state.nodes)

    def starts(self, ordering: int, backfilling: int, now_s: float) -> tuple[Start, ...]:
        """The jobs that start by these policies, in order."""
        q = self.state.with_room()
        self._describe(EasyQueue(*q, self._placement.ranking, self._shadow))
        self._kernels.begin(self._handle)
        try:
            return self._decide(
                lambda: self._kernels.go_on(self._handle, ordering, backfilling, now_s), now_s
            )
        finally:
            self._kernels.undo(self._handle)

    @property
    def reserved_s(self) -> float:
        """When the first job of the last pass that does not fit has a reservation; infinite = never."""
        return self.state.queue.arrays.on.decided.reserved_s.item()


class ReservingPasses(_Passes[ReservingQueue]):
    """Conservative backfilling. The reservations are kept from pass to pass."""

    _reservations: Reservations

    def __init__(self, state: ConsumableNodes, selection: NodeSelection) -> None:
        from scheduler.free_nodes.kernels import reserving_entry_points  # compiled

        super().__init__(state, state.nodes, selection)
        self._kernels = reserving_entry_points
        self._down: frozenset[int] = frozenset()
        self._source: object = None

    def starts(self, now_s: float) -> tuple[Start, ...]:
        """Reserve for each job, in order of service; the jobs whose time has come start."""
        state, nodes = self.state, self.state.nodes
        q = state.with_room()
        if self._source is not nodes.requests:
            self._look_through()
        self._reservations = r = with_room(self._reservations, q)
        self._window.total_requested = nodes.total_requested
        self._describe(ReservingQueue(*q, self._placement.ranking, r))
        ends: Ints = np.append(np.flatnonzero(np.diff(state.waiting.ranks)) + 1, len(state.waiting))
        toggled: Ints = np.array(sorted(nodes.down ^ self._down), dtype=np.int64)
        self._down = frozenset(nodes.down)
        return self._decide(lambda: self._kernels.go_on(self._handle, ends, toggled, now_s), now_s)

    @property
    def starts_s(self) -> list[float]:
        """The reserved start of each waiting job, in order; infinite for those that start or have none."""
        return [*map(float, self._reservations.start_s[self.state.waiting.slots])]

    @property
    def first_reserved_s(self) -> float:
        return self._reservations.first_reserved_s.item() if len(self.state.waiting) else inf

    def _look_through(self) -> None:
        """Prepare for the search: what is free throughout some time is another state of the same nodes."""
        q, nodes = self.state.queue.arrays, self.state.nodes
        self._window = window = nodes.alongside()
        if self._source is None:
            self._reservations = new_reservations(window, len(q.ledger.run), len(q.on.held.kind))
        else:
            self._reservations = self._reservations._replace(nodes=window.table, requests=window.requests)
        self._source, self._placement = nodes.requests, Placement(window, self._selection)
