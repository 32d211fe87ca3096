"""Identical nodes, each for one run at a time."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.model import DispatchOrder, Job, RunId
from scheduler.node_set import NodeSet
from scheduler.rules import KNOWN_NODES, NODES_FREE
from sil.world.events import EventQueue
from sil.world.failures import Hindrances
from sil.world.guard.faults import SchedulerFault
from sil.world.machines.execution import SuspendingMachines


class HeldNodes:
    """One byte per node says whether it is held, so that many nodes are checked by one search in memory."""

    __slots__ = ("_held",)

    def __init__(self, n_nodes: int) -> None:
        self._held = bytearray(n_nodes)

    def first_of(self, nodes: NodeSet) -> int | None:
        """The first one of these that is held."""
        find = self._held.find
        for first, last in nodes.intervals:
            held = find(1, first, last + 1)
            if held >= 0:
                return held
        return None

    def hold(self, nodes: NodeSet) -> None:
        for first, last in nodes.intervals:
            self._held[first : last + 1] = b"\1" * (last - first + 1)

    def give_back(self, nodes: NodeSet) -> None:
        for first, last in nodes.intervals:
            self._held[first : last + 1] = bytes(last - first + 1)


class SpaceSharedMachines(SuspendingMachines):
    """The actual state of `n_nodes` identical nodes; `run_s` is the actual run time of a job."""

    def __init__(
        self,
        n_nodes: int,
        run_s: Callable[[Job], float],
        events: EventQueue,
        hindrances: Hindrances | None = None,
    ) -> None:
        super().__init__(events, hindrances)
        self._run_s = run_s
        self._n_nodes = n_nodes
        self._held = HeldNodes(n_nodes)
        self._holding: dict[RunId, NodeSet] = {}

    def release(self, run: RunId, now_s: float) -> bool:
        return self.has_ended(run, now_s) and self._give_back(run)

    def _give_back(self, run: RunId) -> bool:
        nodes = self._holding.pop(run, None)
        if nodes is None:
            return False
        self._held.give_back(nodes)
        return True

    def down_for(self, order: DispatchOrder) -> tuple[int | str, ...]:
        return tuple(n for n in self._outages if n in order.machines) if self._outages else ()

    def check(self, order: DispatchOrder, now_s: float) -> None:
        """Raises SchedulerFault for nodes that do not exist or are busy."""
        _, job, _, nodes, _, _ = order
        if not isinstance(nodes, NodeSet):
            nodes = NodeSet.of(nodes)
        if nodes.n != job.n_tasks or not nodes.within(self._n_nodes):
            message = (
                f"job {job.id} was dispatched to nodes {nodes}; it asks for {job.n_tasks} of "
                f"{self._n_nodes} nodes"
            )
            raise SchedulerFault(KNOWN_NODES, message, now_s, job.id)
        busy = self._held.first_of(nodes)
        if busy is not None:
            other = next(run for run, held in self._holding.items() if busy in held)
            there = self._active[other].job.id
            message = f"job {job.id} was dispatched to node {busy} while job {there} runs there"
            raise SchedulerFault(NODES_FREE, message, now_s, job.id)

    def start(self, order: DispatchOrder, now_s: float) -> None:
        run, job, _, nodes, _, _ = order
        if not isinstance(nodes, NodeSet):
            nodes = NodeSet.of(nodes)
        self._held.hold(nodes)
        self._active[run] = order
        self._holding[run] = nodes
        self._will_end(run, now_s + self._hindered_s(order, self._run_s(job), now_s))

    def stop(self, run: RunId, now_s: float) -> DispatchOrder:
        self._give_back(run)
        self._forget(run)
        return self._active.pop(run)

    def _give_up_processors(self, order: DispatchOrder) -> None:
        self._give_back(order.run)

    def _why_not_resumed(self, order: DispatchOrder) -> str | None:
        busy = self._held.first_of(NodeSet.of(order.machines))
        return None if busy is None else f"node {busy} is not free"

    def _take_processors(self, order: DispatchOrder) -> None:
        nodes = NodeSet.of(order.machines)
        self._held.hold(nodes)
        self._holding[order.run] = nodes

    def runs_hit_by(self, subject: int | str) -> list[RunId]:
        return [run for run, nodes in self._holding.items() if subject in nodes]
