"""FCFS, SJF and EASY on consumable nodes: the counterpart of the compiled pass for identical nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import NamedTuple

import numpy as np

from scheduler.compiled import Ints, Ints2, called_from_python
from scheduler.free_nodes.consumable_nodes import ConsumableNodes
from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem, room_for
from scheduler.model import NodeSchedule, Start
from scheduler.node_resources.arrays import empty_shadow, new_pass, with_rows
from scheduler.node_resources.kernels.backfilling import begin_pass, one_pass
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
from scheduler.node_resources.selection import NodeSelection, Placement
from scheduler.node_resources.state import shares_of
from scheduler.node_set import NodeSet
from scheduler.wait_reasons import AllOthers

begin_new_pass = called_from_python(begin_pass)
go_on = called_from_python(one_pass)


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
