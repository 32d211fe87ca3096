"""Identical nodes, each for one job at a time: run times do not depend on the choice of nodes."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.model import DispatchOrder, Job, RunId
from scheduler.node_set import NodeSet
from scheduler.rules import KNOWN_NODES, NODES_FREE
from sil.world.events import EventQueue, RunEnded, RunReleased
from sil.world.guard.faults import SchedulerFault
from sil.world.machines.execution import ExecutionModel
from sil.world.machines.held_nodes import HeldNodes


class SpaceSharedMachines(ExecutionModel):
    """The actual state of `n_nodes` identical nodes; `run_s` is the actual run time of a job."""

    def __init__(self, n_nodes: int, run_s: Callable[[Job], float], events: EventQueue) -> None:
        super().__init__()
        self._run_s = run_s
        self._events = events
        self._n_nodes = n_nodes
        self._held = HeldNodes(n_nodes)
        self._active: dict[RunId, DispatchOrder] = {}
        self._holding: dict[RunId, NodeSet] = {}

    def release(self, run: RunId, now_s: float) -> bool:
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
        end_s = now_s + self._run_s(job)
        if self._events.has_releases:
            self._events.push(end_s, RunReleased(run))
        self._events.push(end_s, RunEnded(run))

    def stop(self, run: RunId, now_s: float) -> DispatchOrder:
        self.release(run, now_s)
        return self._active.pop(run)

    def runs_hit_by(self, subject: int | str) -> list[RunId]:
        return [run for run, nodes in self._holding.items() if subject in nodes]
