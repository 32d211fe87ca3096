"""Nodes that runs have as a whole, or parts of. Neighbours do not change run times."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from math import inf
from types import MappingProxyType

from scheduler.model import DispatchOrder, Job, RunId, Share
from scheduler.node_request import Node, Request
from scheduler.node_set import NodeSet
from scheduler.rules import KNOWN_NODES, NODES_FREE
from sil.world.events import EndDue, EventQueue, ReleaseDue
from sil.world.failures import Hindrances
from sil.world.guard.faults import SchedulerFault
from sil.world.machines.execution import ExecutionModel
from sil.world.node_usage import NodeUsage

RunTime = Callable[[Job, Sequence[int]], float]
"""The actual run time of a job on some of the nodes."""


class NodeMachines(ExecutionModel):
    """A run that is suspended keeps its nodes, and others may use their processors until it continues."""

    def __init__(self, run_s: RunTime, events: EventQueue, hindrances: Hindrances | None = None) -> None:
        super().__init__(hindrances)
        self._run_s = run_s
        self._events = events
        self._active: dict[RunId, DispatchOrder] = {}
        self._holding: dict[RunId, DispatchOrder] = {}
        """The active runs that have not released their nodes."""
        self._ends_s: dict[RunId, float] = {}
        """When active runs will be complete; infinite while they are suspended."""
        self._left_s: dict[RunId, float] = {}
        """The seconds that suspended runs have left."""

    def has_ended(self, run: RunId, now_s: float) -> bool:
        return self._ends_s.get(run, inf) <= now_s

    def is_active(self, run: RunId) -> bool:
        """Whether a run is active: one that has released its nodes is complete, if that is not reported."""
        return run in self._holding

    def start(self, order: DispatchOrder, now_s: float) -> None:
        run = order.run
        self._take(order)
        self._active[run] = self._holding[run] = order
        run_s = self._run_s(order.job, order.machines)
        self._will_end(run, now_s + self._hindered_s(order, run_s, now_s))

    def release(self, run: RunId, now_s: float) -> bool:
        if not self.has_ended(run, now_s) or (order := self._holding.pop(run, None)) is None:
            return False
        self._give_back(order, False)
        return True

    def stop(self, run: RunId, now_s: float) -> DispatchOrder:
        if (order := self._holding.pop(run, None)) is not None:
            self._give_back(order, self._left_s.pop(run, None) is not None)
        del self._ends_s[run]
        return self._active.pop(run)

    def _left_s_of(self, run: RunId, now_s: float) -> float:
        return self._left_s.get(run, self._ends_s[run] - now_s)

    def suspend(self, run: RunId, now_s: float) -> DispatchOrder:
        order = self._active[run]
        self._left_s[run], self._ends_s[run] = self._ends_s[run] - now_s, inf
        self._suspend(order)
        return order

    def resume(self, run: RunId, now_s: float) -> DispatchOrder:
        order = self._active[run]
        if (why := self._why_not_resumed(order)) is not None:
            job = order.job.id
            raise SchedulerFault(NODES_FREE, f"job {job} was to continue, but {why}", now_s, job)
        self._resume(order)
        self._will_end(run, now_s + self._left_s.pop(run))
        return order

    def is_suspended(self, run: RunId) -> bool:
        return run in self._left_s

    def runs_hit_by(self, subject: int | str) -> list[RunId]:
        return [run for run, order in self._holding.items() if subject in order.machines]

    def _will_end(self, run: RunId, end_s: float) -> None:
        self._ends_s[run] = end_s
        if self._events.has_releases:
            self._events.push(end_s, ReleaseDue(run))
        self._events.push(end_s, EndDue(run))

    @abstractmethod
    def _take(self, order: DispatchOrder) -> None: ...

    @abstractmethod
    def _give_back(self, order: DispatchOrder, is_suspended: bool) -> None: ...

    @abstractmethod
    def _suspend(self, order: DispatchOrder) -> None: ...

    @abstractmethod
    def _resume(self, order: DispatchOrder) -> None: ...

    @abstractmethod
    def _why_not_resumed(self, order: DispatchOrder) -> str | None:
        """Why a run cannot continue, as a clause; None if it can."""


class HeldNodes:
    """One byte per node says whether it is held, so that many nodes are checked by one search in memory."""

    __slots__ = ("_held",)

    def __init__(self, n_nodes: int) -> None:
        self._held = bytearray(n_nodes)

    def first_of(self, nodes: NodeSet) -> int | None:
        """The first of these nodes that is held."""
        for first, last in nodes.intervals:
            if (held := self._held.find(1, first, last + 1)) >= 0:
                return held
        return None

    def hold(self, nodes: NodeSet) -> None:
        for first, last in nodes.intervals:
            self._held[first : last + 1] = b"\1" * (last - first + 1)

    def give_back(self, nodes: NodeSet) -> None:
        for first, last in nodes.intervals:
            self._held[first : last + 1] = bytes(last - first + 1)


class SpaceSharedMachines(NodeMachines):
    """The actual state of `n_nodes` identical nodes, each for one run at a time."""

    def __init__(
        self, n_nodes: int, run_s: RunTime, events: EventQueue, hindrances: Hindrances | None = None
    ) -> None:
        super().__init__(run_s, events, hindrances)
        self._n_nodes = n_nodes
        self._held = HeldNodes(n_nodes)

    def check(self, order: DispatchOrder, now_s: float) -> None:
        """Raise SchedulerFault for nodes that do not exist or are busy."""
        job, nodes = order.job, NodeSet.of(order.machines)
        if nodes.n != job.n_tasks or not nodes.within(self._n_nodes):
            message = (
                f"job {job.id} was dispatched to nodes {nodes}; it asks for {job.n_tasks} of "
                f"{self._n_nodes} nodes"
            )
            raise SchedulerFault(KNOWN_NODES, message, now_s, job.id)
        busy = self._held.first_of(nodes)
        if busy is not None:
            held = (each for run, each in self._holding.items() if run not in self._left_s)
            there = next(each.job.id for each in held if busy in each.machines)
            message = f"job {job.id} was dispatched to node {busy} while job {there} runs there"
            raise SchedulerFault(NODES_FREE, message, now_s, job.id)

    def _take(self, order: DispatchOrder) -> None:
        self._held.hold(NodeSet.of(order.machines))

    _resume = _take

    def _suspend(self, order: DispatchOrder) -> None:
        self._held.give_back(NodeSet.of(order.machines))

    def _give_back(self, order: DispatchOrder, is_suspended: bool) -> None:
        if not is_suspended:
            self._suspend(order)

    def _why_not_resumed(self, order: DispatchOrder) -> str | None:
        busy = self._held.first_of(NodeSet.of(order.machines))
        return None if busy is None else f"node {busy} is not free"


class ConsumableMachines(NodeMachines):
    """The actual state of `nodes` with cores, memory and GPUs, and of the site's resources."""

    def __init__(
        self,
        nodes: Sequence[Node],
        run_s: RunTime,
        events: EventQueue,
        site_resources: Mapping[str, int] = MappingProxyType({}),
        hindrances: Hindrances | None = None,
    ) -> None:
        super().__init__(run_s, events, hindrances)
        self._usage = NodeUsage(nodes, site_resources)

    def check(self, order: DispatchOrder, now_s: float) -> None:
        """Raise SchedulerFault for shares of nodes that are not free or not what the job requests, and for a
        job that requests more of the site's resources than is left."""
        job, shares = order.job, order.shares
        if job.request is None or {share.node for share in shares} != set(order.machines):
            message = f"job {job.id} was dispatched to nodes {order.machines} with shares of others, or none"
            raise SchedulerFault(KNOWN_NODES, message, now_s, job.id)
        why = self._usage.why_not(job.request, shares)
        if why is not None:
            raise SchedulerFault(NODES_FREE, f"job {job.id} was dispatched, but {why}", now_s, job.id)

    def _take(self, order: DispatchOrder) -> None:
        self._usage.take(*_used_by(order))

    def _suspend(self, order: DispatchOrder) -> None:
        self._usage.suspend(*_used_by(order))

    def _resume(self, order: DispatchOrder) -> None:
        self._usage.resume(*_used_by(order))

    def _give_back(self, order: DispatchOrder, is_suspended: bool) -> None:
        if is_suspended:
            self._resume(order)
        self._usage.give_back(*_used_by(order))

    def _why_not_resumed(self, order: DispatchOrder) -> str | None:
        return self._usage.why_not_resumed(*_used_by(order))


def _used_by(order: DispatchOrder) -> tuple[Request, Sequence[Share]]:
    assert order.job.request is not None
    return order.job.request, order.shares
