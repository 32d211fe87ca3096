"""The state of consumable nodes: what is free, which jobs wait, what runs hold until when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.core.arrays import Floats, Ints, Ints2
from scheduler.core.codes import CONSERVATIVE, EDF, FCFS, NONE, QueueCodes
from scheduler.free_nodes.identical_nodes import NodesInUse, Waiting
from scheduler.model import ANYONE, Job, JobId, RunId, Share, Start
from scheduler.node_request import Node, Request
from scheduler.node_resources.core.codes import NODE
from scheduler.node_resources.core.easy import EasyRule
from scheduler.node_resources.core.on_nodes import OnNodes
from scheduler.node_resources.core.reserving import ReservingRule
from scheduler.node_resources.core.two_passes import TwoPassRule
from scheduler.node_resources.described import DescribedNodes
from scheduler.node_resources.selection import NodeSelection, Placement
from scheduler.node_resources.state import NodeResources, rows_of, shares_of
from scheduler.node_resources.topology import Topology
from scheduler.node_set import NodeSet
from scheduler.ports import ReservationMade
from scheduler.priority.claims import Claimant, Claims
from scheduler.priority.policy import BackfillParameters

T = TypeVar("T", np.int64, np.float64)


class WaitingRequests(Waiting[OnNodes]):
    """Waiting jobs in order of service, and their requests as columns.

    Queues are served by rank from 0 on, and the jobs of a queue by priority, arrival, then id."""

    def slot_at(self, i: int) -> int:
        return int(self._queue.in_order[i])

    @property
    def slots(self) -> Ints:
        """(n,) the slot of each job, in order."""
        return np.array(self._queue.in_order[: len(self)])

    @property
    def ids(self) -> list[JobId]:
        return [JobId(job) for job in self._column(self._queue.job).tolist()]

    @property
    def kinds(self) -> Ints:
        """(n,) the kind of request of each job, in order."""
        return self._column(self._queue.kind)

    @property
    def chunks(self) -> Ints:
        """(n,) the number of chunks that each job requests."""
        return self._column(self._queue.chunks)

    @property
    def estimates_s(self) -> Floats:
        """(n,) the estimated run time of each job."""
        return self._column(self._queue.estimate_s)

    def in_order_of(self, ordering: int) -> Ints:
        """(n,) the jobs by queue, then an ordering."""
        by_deadline = ordering >= EDF
        slots = self._queue.by_urgency(ordering) if by_deadline else self._queue.by_estimate
        return self.places(np.asarray(slots)[: len(self)])

    def places(self, slots: Ints) -> Ints:
        """The positions of the jobs in some slots."""
        place_of = np.zeros(self._queue.n_slots, np.int64)
        place_of[self.slots] = np.arange(len(self))
        return place_of[slots]

    def request_of(self, i: int) -> tuple[int, int]:
        """The kind of request of the job in position i, and its number of chunks."""
        slot = self.slot_at(i)
        return self._queue.kind[slot], self._queue.chunks[slot]

    def estimate_s(self, i: int) -> float:
        return float(self._queue.estimate_s[self.slot_at(i)])

    def _column(self, by_slot: NDArray[T]) -> NDArray[T]:
        return np.asarray(by_slot)[self.slots]


class ConsumableNodes(NodesInUse[OnNodes]):
    """Nodes, the jobs that wait for parts of them, and the runs that hold parts. Read-only for schedulers.

    * `nodes`: what is free.
    * `waiting`: the jobs of the problem, with their requests as columns.
    * `releases`: when runs are expected to end.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        site_resources: Mapping[str, int] = MappingProxyType({}),
        claims: Claims | None = None,
        topology: Topology | None = None,
    ) -> None:
        self.nodes, self.claims = NodeResources(nodes, site_resources, topology), claims
        super().__init__(len(nodes), OnNodes(self.nodes.state, QueueCodes()))
        if claims is not None:
            self.queue.service = claims.service
        self.waiting = WaitingRequests(self.queue)
        self._users = {ANYONE: NONE}

    def wait(self, job: Job, request: Request | None, estimate_s: float, rank: int = 0) -> None:
        assert request is not None
        if self.claims is not None:
            claim = self.claims.of(Claimant.of(job), request, job.estimate_s)
            assert isinstance(claim, int), "it was admitted"
            self.queue.service.next_claim = claim
        of_each = choices(self.nodes, self.claims, Claimant.of(job), request, job.estimate_s)
        if of_each.size:
            self.queue.choices[job.id] = of_each
        self.queue.next_rank = rank
        self.queue.next_user = self._users.setdefault(job.user, len(self._users) - 1)
        self.waiting.join(job, request.chunks, self.nodes.note_request(request), estimate_s)

    def within_limits(self, job: Job, request: Request, nodes: Ints) -> bool:
        """Whether a job could start now on some nodes, as far as the limits of the policy are concerned."""
        if self.claims is None:
            return True
        limits, claim = self.claims.service.limits, self.claims.of(Claimant.of(job), request, job.estimate_s)
        if not isinstance(claim, int) or limits.first_exceeded(claim, False) != NONE:
            return False
        return limits.first_exceeded_on(claim, nodes, 0, len(nodes)) == NONE

    @property
    def reservations(self) -> list[ReservationMade]:
        """The reservations that are known and not over."""
        c = self.queue.calendar
        return [
            ReservationMade(c.names[b], (*np.flatnonzero(c.has[b]).tolist(),), c.start_s[b], c.end_s[b])
            for b in range(c.n)
            if c.serial[b]
        ]

    def in_the_way(self, i: int, now_s: float) -> dict[int, str]:
        """The nodes on which waiting job i cannot start now because of a reservation, and which one, in
        words."""
        calendar, kinds = self.queue.calendar, self.nodes.kinds
        if not calendar.n:
            return {}
        own, until_s = kinds.own(self.waiting.request_of(i)[0]), now_s + self.waiting.estimate_s(i)
        of_node = ((n, calendar.in_the_way(own, n, now_s, until_s)) for n in range(self.n_nodes))
        return {
            n: f"its reservation {calendar.names[b]}, from {calendar.start_s[b]:,.10g} to "
            f"{calendar.end_s[b]:,.10g} s"
            if own >> b & 1
            else f"reservation {calendar.names[b]}, which begins at {calendar.start_s[b]:,.10g} s"
            for n, b in of_node
            if b != NONE
        }

    def set_in_order(self, now_s: float) -> None:
        self.queue.set_in_order(now_s)
        self.waiting.forget_asked()

    def changes_s(self, now_s: float) -> float:
        """When priorities are calculated next, or a reservation begins or ends; infinite = never."""
        return self.queue.changes_s(now_s)

    def start(self, run: RunId, job: JobId, start: Start, now_s: float) -> tuple[Share, ...]:
        """Start a waiting job. Returns what it uses."""
        slot, _ = self._running[run] = self.waiting.leave(job)
        self.queue.choose_partition(slot, self.choice(slot, start.partition))
        if start.shares:
            used = rows_of(start.shares)
        else:
            kind, chunks = self.queue.kind[slot], self.queue.chunks[slot]
            divided = self.nodes.divided(kind, chunks, NodeSet.of(start.nodes))
            assert divided is not None, "the rules of a schedule have been checked"
            used = divided
        self.queue.start_on(slot, used, run, now_s, start.completion_s)
        return start.shares or shares_of(used)

    def start_of(self, run: RunId, nodes: Sequence[int]) -> tuple[Start, float]:
        start, began_s = super().start_of(run, nodes)
        slot = self.slot_of(run)
        shares = shares_of(self.queue.held.table(self.queue.first_row[slot]))
        return start._replace(shares=shares, partition=self.partition_of(slot)), began_s

    def resume(self, other: ConsumableNodes) -> None:
        """Go on from what is known of the same nodes, besides jobs and runs."""
        for reservation in other.reservations:
            self.queue.calendar.reserve(*reservation)
        if self.claims is not None and other.claims is not None:
            self.claims.resume(other.claims)

    def partition_of(self, slot: int) -> str:
        """In which of several partitions a job starts, or runs; empty if it was not tried in each."""
        return self.nodes.where.get(self.queue.kind[slot], "") if self.queue.choice[slot] else ""

    def choice(self, slot: int, partition: str) -> int:
        """Which choice of a waiting job is a partition; 0 if none is."""
        kinds = np.asarray(self.queue.kinds)[slot, 1 : self.queue.n_choices[slot] + 1]
        return next((c for c, kind in enumerate(kinds, 1) if self.nodes.where[kind] == partition), 0)

    def set_available(self, node: int, is_available: bool) -> None:
        """Mark a node as up or down. A run that holds it keeps it."""
        self.nodes.set_up(node, is_available)


def choices(
    nodes: DescribedNodes, claims: Claims | None, who: Claimant, request: Request, limit_s: float | None
) -> Ints2:
    """(2, n) the kind and the claim of a job in each of several partitions; none where it may be in one."""
    found = list[tuple[int, int]]()
    for each in nodes.in_each(request):
        claim = 0 if claims is None else claims.of(who, each, limit_s)
        if isinstance(claim, int):
            found.append((nodes.kind_of(each), claim))
    return np.array(found, np.int64).T


def _starts(state: ConsumableNodes, n: int, now_s: float) -> tuple[Start, ...]:
    if not n:
        return ()
    q, starts, begin = state.queue, list[Start](), 0
    for x, i in enumerate(state.waiting.places(np.asarray(q.placed)[:n]).tolist()):
        used = q.rows.table(begin, q.after[x])
        end_s = now_s + q.estimate_s[q.placed[x]]
        partition = state.partition_of(q.placed[x])
        starts.append(Start(i, NodeSet.of(set(used[:, NODE].tolist())), end_s, shares_of(used), partition))
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
    """Conservative backfilling, or Slurm's two schedulers; what is reserved is kept from pass to pass."""

    def __init__(
        self, state: ConsumableNodes, selection: NodeSelection, how: BackfillParameters | None = None
    ) -> None:
        """Searches for reservations write to another state of the same nodes. `how`: Slurm's parameters."""
        self.state, self._window = state, state.nodes.alongside()
        self._placement, self._now = Placement(self._window, selection), Placement(state.nodes, selection)
        self._plan = ReservingRule(state.queue, self._placement)
        self._rule: ReservingRule | TwoPassRule = self._plan
        if how is not None:
            main = EasyRule(state.queue, self._now)
            self._rule = TwoPassRule(state.queue, main, self._plan, how, plans_all=True)

    def starts(self, now_s: float) -> tuple[Start, ...]:
        """The jobs that start, in order of service."""
        nodes = self.state.nodes
        self._window.total_requested = nodes.total_requested
        self._placement.begin()
        self._now.begin()
        try:
            return _starts(self.state, self._rule.decide(FCFS, CONSERVATIVE, now_s), now_s)
        finally:
            if self._rule.takes:
                self.state.queue.undo()

    @property
    def starts_s(self) -> list[float]:
        """The reserved start of each waiting job, in order; infinite for those that start or have none."""
        return [self._plan.start_s[slot] for slot in self.state.waiting.slots.tolist()]

    @property
    def asks_again_s(self) -> float:
        """When to decide again, though nothing happens; infinite = never."""
        return self.state.queue.asks_again_s if len(self.state.waiting) else inf
