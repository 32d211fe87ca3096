"""FCFS, SJF and EASY on consumable nodes: the counterpart of the compiled pass for identical nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from scheduler.compiled import Ints, Ints2
from scheduler.free_nodes.consumable_backfilling import Passes
from scheduler.free_nodes.consumable_nodes import ConsumableNodes
from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem
from scheduler.model import NodeSchedule, Start
from scheduler.node_resources.kernels.tables import NODE
from scheduler.node_resources.room import room_for
from scheduler.node_resources.selection import NodeSelection
from scheduler.node_resources.shares import shares_of
from scheduler.node_set import NodeSet
from scheduler.wait_reasons import AllOthers

WAITS = "it does not fit on the nodes, or it would delay the first of the queue"

Placed = Sequence[tuple[int, Ints2]]
"""Jobs that start, by position in the queue, and what each uses."""


class ConsumableScheduling:
    """Scheduling of the jobs that wait for one set of nodes."""

    def __init__(self, state: ConsumableNodes, selection: NodeSelection) -> None:
        self.state = state
        self._passes = Passes(state, selection)

    def schedule(
        self, problem: ConsumableNodesProblem, shortest_first: bool, backfilled: str | None
    ) -> NodeSchedule:
        """In order of service or, within each queue, shortest first; others are backfilled in either of these
        orders or not."""
        estimates_s, now_s = self.state.waiting.estimates_s, problem.now_s
        in_order: Ints = np.arange(len(estimates_s))
        by_estimate = in_order
        if shortest_first or backfilled == "shortest first":
            by_estimate = self.state.waiting.shortest_first
        order = by_estimate if shortest_first else in_order
        later = {None: None, "in order": in_order, "shortest first": by_estimate}[backfilled]
        placed = self._passes.run(order, later, now_s)
        starts = tuple(
            Start(i, NodeSet.of(set(used[:, NODE].tolist())), now_s + float(estimates_s[i]), shares_of(used))
            for i, used in placed
        )
        reservation = self._passes.reservation
        in_detail = _WaitReasons(problem, placed, order, None if reservation is None else reservation.at_s)
        return NodeSchedule(starts, AllOthers(problem.n_jobs, starts, WAITS, in_detail))


@dataclass(eq=False)
class _WaitReasons:
    """Computed on request, before the state changes. `order` is that of the queue."""

    problem: ConsumableNodesProblem
    placed: Placed
    order: Ints
    reserved_s: float | None

    def __call__(self, i: int) -> str:
        with self.problem.free_nodes.without(self.placed):
            return self._sentence(i)

    def of_all(self) -> list[str]:
        """For each job; those that request the same have one reason."""
        waiting = self.problem.free_nodes.waiting
        first, reasons, found = self._first, dict[tuple[int, int], str](), list[str]()
        with self.problem.free_nodes.without(self.placed):
            for i, asked in enumerate(zip(waiting.kinds.tolist(), waiting.chunks.tolist(), strict=True)):
                if i == first:
                    found.append(self._sentence(i))
                    continue
                if asked not in reasons:
                    reasons[asked] = self._sentence(i)
                found.append(reasons[asked])
        return found

    @cached_property
    def _first(self) -> int:
        """The first waiting job in the order of the queue."""
        placed = {i for i, _ in self.placed}
        return next(int(k) for k in self.order if int(k) not in placed)

    def _sentence(self, i: int) -> str:
        state = self.problem.free_nodes
        request = state.nodes.request_of(int(state.waiting.kinds[i]), int(state.waiting.chunks[i]))
        room = room_for(state.nodes, request)
        if i == self._first:
            return f"first of the queue: {room}{self._reserved()}"
        if not state.nodes.fits(int(state.waiting.kinds[i]), int(state.waiting.chunks[i])):
            return room
        job = state.waiting[self._first].id
        if self.reserved_s is None:
            return f"{room}; but job {job} comes first"
        return f"{room}; but it would delay job {job}, which is first{self._reserved()}"

    def _reserved(self) -> str:
        if self.reserved_s is None:
            return ""
        if self.reserved_s == inf:
            return "; reserved for when more nodes are up"
        return f"; reserved for {self.reserved_s:,.10g} s"
