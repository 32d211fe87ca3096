"""Conservative backfilling on consumable nodes: a reservation of nodes for every job that waits."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from scheduler.compiled import Ints, Ints2, allocate
from scheduler.free_nodes.consumable_nodes import ConsumableNodes
from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem
from scheduler.model import JobId, NodeSchedule, Start
from scheduler.node_resources.kernels import timeline as kernels
from scheduler.node_resources.kernels.allocation import NODE
from scheduler.node_resources.kernels.tables import NONE
from scheduler.node_resources.kernels.timeline import N_SPARE, Timeline
from scheduler.node_resources.selection import NodeSelection, Placement
from scheduler.node_resources.shares import shares_of
from scheduler.node_resources.state import NodeResources
from scheduler.node_set import NodeSet
from scheduler.wait_reasons import AllOthers

FEWEST_USES = 1024
WAITS = "it has a reservation for later"


@dataclass(slots=True)
class Reservation:
    """From `start_s` on, a job is to have what the rows of `used` state."""

    start_s: float
    used: Ints2
    use: int = NONE
    """Its first row in the timeline, while it is there."""


class Reservations:
    """The reservations of the jobs that wait for one set of nodes."""

    def __init__(self, state: ConsumableNodes, selection: NodeSelection) -> None:
        self.state = state
        self._selection = selection
        self._of_job: dict[JobId, Reservation] = {}
        self._seen = 0
        """The time of the last pass, in changes of nodes."""
        self._moved = set[int]()
        """Nodes that reservations left in the last pass."""
        self._look_through()
        self._uses = self._timeline(FEWEST_USES)

    def schedule(self, problem: ConsumableNodesProblem) -> NodeSchedule:
        """Reserve for each job, in order of service, and start those whose time has come.

        A queue's jobs are considered as if the queues served after it had no reservations: theirs move if
        these take their place.
        """
        now_s, waiting = problem.now_s, self.state.waiting
        if self._source is not self.state.nodes.requests:
            self._look_through()
        self._window.total_requested = self.state.nodes.total_requested
        self._fill(now_s)
        freed = self._moved | set(self.state.nodes.changed_since(self._seen).tolist())
        self._seen, self._moved = self.state.nodes.clock, set()
        self._freed: Ints = np.array(sorted(freed), dtype=np.int64)
        jobs = [waiting[i].id for i in range(len(waiting))]
        found: dict[JobId, Reservation] = {}
        for queue in waiting.by_queue():
            kept = [(self._of_job[jobs[i]].start_s, i) for i in queue if jobs[i] in self._of_job]
            for _, i in sorted(kept):
                self._keep(i, self._of_job[jobs[i]], now_s)
            for i in queue:
                reservation = self._moved_up(i, self._of_job.get(jobs[i]), now_s)
                if reservation is not None:
                    found[jobs[i]] = reservation
        starts = []
        for i, job in enumerate(jobs):
            if job in found and found[job].start_s == now_s:
                used = found.pop(job).used
                nodes = NodeSet.of(set(used[:, NODE].tolist()))
                starts.append(Start(i, nodes, now_s + self._takes_s(i), shares_of(used)))
        self._of_job = found
        first_s = min((each.start_s for each in found.values()), default=None)
        reserved_s = {i: found[job].start_s for i, job in enumerate(jobs) if job in found}
        reasons = AllOthers(
            problem.n_jobs,
            tuple(starts),
            WAITS,
            lambda i: (
                f"reserved for {reserved_s[i]:.10g} s"
                if i in reserved_s
                else "reserved for when more nodes are up"
            ),
        )
        return NodeSchedule(tuple(starts), reasons, first_s)

    def _takes_s(self, i: int) -> float:
        return float(self.state.waiting.estimates_s[i])

    def _keep(self, i: int, reservation: Reservation, now_s: float) -> None:
        """Keep a reservation if its nodes are still free for it, or move it to the earliest time after it."""
        kind, takes_s = int(self.state.waiting.kinds[i]), self._takes_s(i)
        start_s = max(reservation.start_s, now_s)
        free = kernels.is_free(
            self._uses,
            self._window.table,
            self._window.requests,
            kind,
            reservation.used,
            start_s,
            takes_s,
        )
        if free:
            reservation.start_s = start_s
            self._add(i, reservation)
            return
        self._leave(reservation)
        moved = self._earliest(i, start_s, inf)
        if moved is None:
            del self._of_job[self.state.waiting[i].id]
            return
        reservation.start_s, reservation.used = moved.start_s, moved.used
        self._add(i, reservation)

    def _moved_up(self, i: int, reservation: Reservation | None, now_s: float) -> Reservation | None:
        """The earliest reservation that all others leave room for; on the same nodes if not earlier."""
        if reservation is None:
            reservation = self._earliest(i, now_s, inf)
        elif reservation.start_s == now_s:
            return reservation
        else:
            kernels.cancel(self._uses, reservation.use)
            if self._may_move_up(i, reservation, now_s):
                earlier = self._earliest(i, now_s, reservation.start_s)
                if earlier is not None:
                    self._leave(reservation)
                    reservation = earlier
        if reservation is not None:
            self._add(i, reservation)
        return reservation

    def _may_move_up(self, i: int, reservation: Reservation, now_s: float) -> bool:
        """A reservation was the earliest possible one. It still is unless a chunk fits earlier on a node to
        which something was given back meanwhile; whoever gave it back may also have had resources of the
        site, if it requests some."""
        kind = int(self.state.waiting.kinds[i])
        if self._window.site_need(kind).any():
            return len(self._freed) > 0
        return kernels.fits_before(
            self._uses,
            self._window.table,
            self._window.requests,
            kind,
            self._freed,
            now_s,
            self._takes_s(i),
            reservation.start_s,
        )

    def _leave(self, reservation: Reservation) -> None:
        """Others may move up to these nodes, in this pass or the next."""
        self._moved |= set(reservation.used[:, NODE].tolist())
        self._freed = np.array(sorted(self._moved | set(self._freed.tolist())), dtype=np.int64)

    def _earliest(self, i: int, from_s: float, before_s: float) -> Reservation | None:
        """The earliest reservation from a time on, if it is before another."""
        kind, chunks = int(self.state.waiting.kinds[i]), int(self.state.waiting.chunks[i])
        start_s = kernels.earliest_s(
            self._uses,
            self._window.table,
            self._window.requests,
            kind,
            chunks,
            from_s,
            self._takes_s(i),
        )
        if start_s >= before_s:
            return None
        used = self._placement.place(kind, chunks)
        assert used is not None
        return Reservation(start_s, used)

    def _add(self, i: int, reservation: Reservation) -> None:
        used = reservation.used
        if len(used) > self._uses.sizes[N_SPARE]:
            self._make_room(len(used))
        end_s = reservation.start_s + self._takes_s(i)
        kind = int(self.state.waiting.kinds[i])
        reservation.use = kernels.reserve(self._uses, used, kind, reservation.start_s, end_s)

    def _fill(self, now_s: float) -> None:
        state = self.state
        if len(state.held.kind) > len(self._uses.kind):
            self._uses = self._timeline(2 * len(state.held.kind))
        kernels.clear(self._uses)
        releases = state.releases
        kernels.add_runs(self._uses, releases.table, releases.n, state.held, now_s)

    def _look_through(self) -> None:
        """Prepare for the search: what is free throughout some time is another state of the same nodes."""
        self._source = self.state.nodes.requests
        self._window: NodeResources = self.state.nodes.alongside()
        self._placement = Placement(self._window, self._selection)

    def _timeline(self, n_rows: int) -> Timeline:
        table = self.state.nodes.table
        width = table.free.shape[1] + table.gpu_free.shape[1] + 1
        each = (n_rows,) * 8
        uses: Timeline = allocate(Timeline, (n_rows, 3), *each, 3, self.state.n_nodes, width)
        kernels.clear(uses)
        return uses

    def _make_room(self, more: int) -> None:
        before = self._uses
        n, n_rows = len(before.kind), 2 * (len(before.kind) + more)
        self._uses = self._timeline(n_rows)
        for new, old in zip(self._uses, before, strict=True):
            new[: len(old)] = old
        n_spare = int(before.sizes[N_SPARE])
        more_rows = np.arange(n_rows - 1, n - 1, -1)
        self._uses.spare[n_spare : n_spare + len(more_rows)] = more_rows
        self._uses.sizes[N_SPARE] = n_spare + len(more_rows)
