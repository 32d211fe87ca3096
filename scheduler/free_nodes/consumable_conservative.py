"""Conservative backfilling on consumable nodes: a reservation of nodes for every job that waits."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from scheduler.compiled import Ints, Ints2, allocate
from scheduler.free_nodes.consumable_nodes import ConsumableNodes
from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem
from scheduler.model import JobId, NodeSchedule, Start
from scheduler.node_resources.kernels import timeline, window
from scheduler.node_resources.kernels.tables import NODE, NONE
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
        self._set_freed(freed)
        self._kinds, self._chunks = waiting.kinds.tolist(), waiting.chunks.tolist()
        self._run_times_s: list[float] = waiting.estimates_s.tolist()
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
                starts.append(Start(i, nodes, now_s + self._run_times_s[i], shares_of(used)))
        self._of_job = found
        first_s = min((each.start_s for each in found.values()), default=None)
        reserved_s = {i: found[job].start_s for i, job in enumerate(jobs) if job in found}
        reasons = AllOthers(
            problem.n_jobs,
            tuple(starts),
            WAITS,
            lambda i: (
                f"reserved for {reserved_s[i]:,.10g} s"
                if i in reserved_s
                else "reserved for when more nodes are up"
            ),
        )
        return NodeSchedule(tuple(starts), reasons, first_s)

    def _keep(self, i: int, reservation: Reservation, now_s: float) -> None:
        """Keep a reservation if its nodes are still free for it, or move it to the earliest time after it."""
        kind, takes_s = self._kinds[i], self._run_times_s[i]
        start_s = max(reservation.start_s, now_s)
        free = window.is_free(
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
            reservation = self._earliest_of_new(i, now_s)
            if reservation is not None:
                self._add(i, reservation)
        elif reservation.start_s > now_s:
            if self._is_on_freed_nodes(reservation):  # elsewhere it delays no other job
                self._take_out(reservation)
            from_s = self._may_move_up_to_s(i, reservation, now_s)
            if from_s < reservation.start_s:
                self._take_out(reservation)
                earlier = self._earliest(i, from_s, reservation.start_s)
                if earlier is not None:
                    self._leave(reservation)
                    reservation = earlier
            if reservation.use == NONE:
                self._add(i, reservation)
        return reservation

    def _earliest_of_new(self, i: int, now_s: float) -> Reservation | None:
        """Of a job without a reservation: not before another one like it that reserved in this pass."""
        asked = self._kinds[i], self._chunks[i], self._run_times_s[i]
        found = self._earliest(i, self._reserved_s.get(asked, now_s), inf)
        if found is not None:
            self._reserved_s[asked] = found.start_s
        return found

    def _is_on_freed_nodes(self, reservation: Reservation) -> bool:
        return not self._freed_nodes.isdisjoint(reservation.used[:, NODE].tolist())

    def _take_out(self, reservation: Reservation) -> None:
        timeline.cancel(self._uses, reservation.use)
        reservation.use = NONE

    def _may_move_up_to_s(self, i: int, reservation: Reservation, now_s: float) -> float:
        """No earlier start is possible; infinite if none is.

        A reservation was the earliest possible one. It still is unless a chunk fits earlier on a node to
        which something was given back meanwhile. If it requests resources of the site, what was given back
        may include some of these."""
        kind, takes_s = self._kinds[i], self._run_times_s[i]
        if self.state.nodes.site_resources and self._window.site_need(kind).any():
            return now_s if len(self._freed) else inf
        # Since the last such job, reservations were only added. Where a job's own one has been taken out, it
        # may leave room.
        asked = kind, takes_s
        looked_until_s = self._fits_nowhere_before.get(asked, now_s)
        if reservation.use == NONE:
            looked_until_s = now_s
        first_s = window.first_chunk_s(
            self._uses,
            self._window.table,
            self._window.requests,
            kind,
            self._freed,
            now_s,
            takes_s,
            looked_until_s,
            reservation.start_s,
        )
        known_s = min(first_s, reservation.start_s)
        self._fits_nowhere_before[asked] = max(looked_until_s, known_s)
        return first_s

    def _leave(self, reservation: Reservation) -> None:
        """Others may move up to these nodes, in this pass or the next."""
        self._moved |= set(reservation.used[:, NODE].tolist())
        self._set_freed(self._moved | self._freed_nodes)

    def _set_freed(self, nodes: set[int]) -> None:
        """To these nodes something was given back since reservations were the earliest possible ones."""
        self._freed_nodes = nodes
        self._freed: Ints = np.array(sorted(nodes), dtype=np.int64)
        # What is known as long as reservations are only added:
        self._fits_nowhere_before = dict[tuple[int, float], float]()
        """On freed nodes, by kind and run time."""
        self._reserved_s = dict[tuple[int, int, float], float]()
        """The latest of the reservations of new jobs by kind, chunks and run time."""

    def _earliest(self, i: int, from_s: float, before_s: float) -> Reservation | None:
        """The earliest reservation from a time on, if it is before another."""
        kind, chunks = self._kinds[i], self._chunks[i]
        start_s = window.earliest_s(
            self._uses,
            self._window.table,
            self._window.requests,
            kind,
            chunks,
            from_s,
            self._run_times_s[i],
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
        end_s = reservation.start_s + self._run_times_s[i]
        reservation.use = timeline.reserve(self._uses, used, self._kinds[i], reservation.start_s, end_s)

    def _fill(self, now_s: float) -> None:
        state = self.state
        if len(state.held.kind) > len(self._uses.kind):
            self._uses = self._timeline(2 * len(state.held.kind))
        timeline.clear(self._uses)
        releases = state.releases
        timeline.add_runs(self._uses, releases.table, releases.n, state.held, now_s)

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
        timeline.clear(uses)
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
