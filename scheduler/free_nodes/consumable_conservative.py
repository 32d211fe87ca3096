"""The pass with reservations as Python calls it, which the compiled engine does without."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import numpy as np

from scheduler.compiled import Ints, Ints2, allocate, called_from_python
from scheduler.free_nodes.consumable_nodes import ConsumableNodes
from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem
from scheduler.model import JobId, NodeSchedule, Start
from scheduler.node_resources.arrays import new_pass, new_reservations, with_enough_uses, with_held, with_jobs
from scheduler.node_resources.kernels.reservations import FIRST_RESERVED_S, ROWS_NEEDED
from scheduler.node_resources.kernels.reserving import reserve
from scheduler.node_resources.kernels.tables import NODE
from scheduler.node_resources.kernels.workspace import (
    AFTER,
    DONE,
    GPU,
    JOB,
    MORE_ROWS,
    N_PLACED,
    ROW,
    TAKING,
    WHICH_SCORES,
    Jobs,
)
from scheduler.node_resources.selection import NodeSelection, Placement
from scheduler.node_resources.state import NodeResources, shares_of
from scheduler.node_set import NodeSet
from scheduler.wait_reasons import AllOthers

go_on_reserving = called_from_python(reserve)


FEWEST_JOBS, FEWEST_ROWS = 64, 256
WAITS = "it has a reservation for later"


class Slots:
    """A number for each waiting job, below the largest number of jobs that ever waited at once, or left the
    queue since a pass."""

    def __init__(self) -> None:
        self._of_job: dict[JobId, int] = {}
        self._spare: list[int] = []
        self._n = 0

    def of(self, jobs: list[JobId]) -> Ints:
        """Numbers of jobs; those of others can be used again from the next call on."""
        of_job = self._of_job
        gone = of_job.keys() - set(jobs)
        for job in jobs:
            if job not in of_job:
                of_job[job] = self._spare.pop() if self._spare else self._next()
        self._spare += [of_job.pop(job) for job in gone]
        return np.array([of_job[job] for job in jobs], dtype=np.int64)

    def _next(self) -> int:
        self._n += 1
        return self._n - 1


class Reservations:
    """The reservations of the jobs that wait for one set of nodes (see `kernels.reserving`)."""

    def __init__(self, state: ConsumableNodes, selection: NodeSelection) -> None:
        self.state = state
        self._selection = selection
        self._slots = Slots()
        self._down: frozenset[int] = frozenset()
        self._look_through()
        self._jobs = _room_for(FEWEST_JOBS)
        self._pass = new_pass(FEWEST_JOBS, FEWEST_ROWS)
        self._reserved = new_reservations(state.nodes.table, FEWEST_JOBS, FEWEST_ROWS, len(state.held.kind))

    def schedule(self, problem: ConsumableNodesProblem) -> NodeSchedule:
        """Reserve for each job, in order of service, and start those whose time has come."""
        now_s, waiting = problem.now_s, self.state.waiting
        if not len(waiting):
            return NodeSchedule((), AllOthers(0, (), WAITS, str), None)
        order = self._slots.of(waiting.ids)
        self._make_room(int(order.max()) + 1)
        for column, values in zip(
            self._jobs, (waiting.kinds, waiting.chunks, waiting.estimates_s), strict=True
        ):
            column[order] = values
        if self._source is not self.state.nodes.requests:
            self._look_through()
        self._window.total_requested = self.state.nodes.total_requested
        self._decide(order, now_s)
        position = {slot: i for i, slot in enumerate(order.tolist())}
        starts = tuple(
            Start(
                position[slot],
                NodeSet.of(set(used[:, NODE].tolist())),
                now_s + float(self._jobs.estimates_s[slot]),
                shares_of(used),
            )
            for slot, used in self._placed()
        )
        starts_s = self._reserved.start_s[order].tolist()
        first_s = float(self._reserved.times_s[FIRST_RESERVED_S])
        return NodeSchedule(
            starts,
            AllOthers(problem.n_jobs, starts, WAITS, lambda i: _reserved_for(starts_s[i])),
            first_s if first_s < inf else None,
        )

    def _decide(self, order: Ints, now_s: float) -> None:
        state, window = self.state, self._window
        ends: Ints = np.array([queue.stop for queue in state.waiting.by_queue()])
        toggled: Ints = np.array(sorted(state.nodes.down ^ self._down), dtype=np.int64)
        self._down = frozenset(state.nodes.down)
        ranking = self._placement.ranking
        while True:
            p = self._pass
            why = go_on_reserving(
                self._reserved,
                window.table,
                window.requests,
                ranking,
                self._jobs,
                order,
                ends,
                toggled,
                state.releases.table,
                state.releases.n,
                state.held,
                now_s,
                p,
            )
            if why == DONE:
                return
            if why == MORE_ROWS:
                self._make_rows()
                continue
            kind = int(self._jobs.kinds[p.counts[TAKING]])
            if why == WHICH_SCORES:
                self._placement.update(kind)
            else:
                p.counts[GPU] = self._placement.gpu(kind, int(p.rows[p.counts[ROW], NODE]))

    def _placed(self) -> Iterator[tuple[int, Ints2]]:
        """The jobs that start, by slot, and what they use."""
        p, begin = self._pass, 0
        for slot, after in p.placed[: p.counts[N_PLACED], [JOB, AFTER]].tolist():
            yield slot, p.rows[begin:after]
            begin = after

    def _look_through(self) -> None:
        """Prepare for the search: what is free throughout some time is another state of the same nodes."""
        self._source = self.state.nodes.requests
        self._window: NodeResources = self.state.nodes.alongside()
        self._placement = Placement(self._window, self._selection)

    def _make_room(self, n_jobs: int) -> None:
        if n_jobs > len(self._jobs.kinds):
            self._jobs = _room_for(2 * n_jobs)
            self._pass = new_pass(2 * n_jobs, len(self._pass.rows))
            self._reserved = with_jobs(self._reserved, 2 * n_jobs)
        self._reserved = with_held(self._reserved, len(self.state.held.kind))

    def _make_rows(self) -> None:
        n = int(self._reserved.counts[ROWS_NEEDED])
        if n > len(self._pass.rows):
            self._pass = new_pass(len(self._pass.placed), 2 * n)
        self._reserved = with_enough_uses(self._reserved, self._window.table)


def _room_for(n_jobs: int) -> Jobs:
    return allocate(Jobs, n_jobs, n_jobs, n_jobs)


def _reserved_for(start_s: float) -> str:
    return f"reserved for {start_s:,.10g} s" if start_s < inf else "reserved for when more nodes are up"
