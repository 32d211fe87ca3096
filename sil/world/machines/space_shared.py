"""Nodes that a job has alone: it runs for its time, whichever nodes it has; what is lost begins anew."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.model import DispatchOrder, Job, RunId
from scheduler.node_set import NodeSet
from scheduler.rules import KNOWN_NODES, NODES_FREE
from sil.world.events import EventQueue, RunEnded, RunReleased
from sil.world.guard.faults import SchedulerFault


class SpaceSharedMachines:
    """The true state of `n_nodes` alike nodes; `run_s` tells how long a job really runs.

    Who holds a node is kept in a byte for each, apart from the intervals that the scheduler keeps: checking
    an order of many nodes is one look at a stretch of memory.
    """

    def __init__(self, n_nodes: int, run_s: Callable[[Job], float], events: EventQueue) -> None:
        self._run_s = run_s
        self._events = events
        self._n_nodes = n_nodes
        self._held = bytearray(n_nodes)
        self._outages: dict[int, int] = {}
        self._active: dict[RunId, DispatchOrder] = {}
        self._holding: dict[RunId, NodeSet] = {}

    @property
    def is_idle(self) -> bool:
        return not self._active

    def is_active(self, run: RunId) -> bool:
        return run in self._active

    def has_ended(self, run: RunId, now_s: float) -> bool:
        """The end of a run never moves."""
        return run in self._active

    def give_back(self, run: RunId, now_s: float) -> bool:
        nodes = self._holding.pop(run, None)
        if nodes is None:
            return False
        for first, last in nodes.intervals:
            self._held[first : last + 1] = bytes(last - first + 1)
        return True

    def down_for(self, order: DispatchOrder) -> tuple[int | str, ...]:
        """The nodes of an order that are down."""
        return tuple(n for n in self._outages if n in order.machines) if self._outages else ()

    def check(self, order: DispatchOrder, now_s: float) -> None:
        """Raises SchedulerFault where the order names nodes that are not there, or that another job has."""
        _, job, _, nodes, _ = order
        if not isinstance(nodes, NodeSet):
            nodes = NodeSet.of(nodes)
        if nodes.n != job.n_tasks or not nodes.within(self._n_nodes):
            message = (
                f"job {job.id} was dispatched to nodes {nodes}; it asks for {job.n_tasks} of "
                f"{self._n_nodes} nodes"
            )
            raise SchedulerFault(KNOWN_NODES, message, now_s, job.id)
        is_held = self._held.find
        for first, last in nodes.intervals:
            busy = is_held(1, first, last + 1)
            if busy >= 0:
                other = next(run for run, held in self._holding.items() if busy in held)
                there = self._active[other].job.id
                message = f"job {job.id} was dispatched to node {busy} while job {there} runs there"
                raise SchedulerFault(NODES_FREE, message, now_s, job.id)

    def start(self, order: DispatchOrder, now_s: float) -> None:
        """Start a run, and with that know its end."""
        run, job, _, nodes, _ = order
        if not isinstance(nodes, NodeSet):
            nodes = NodeSet.of(nodes)
        for first, last in nodes.intervals:
            self._held[first : last + 1] = b"\1" * (last - first + 1)
        self._active[run] = order
        self._holding[run] = nodes
        end_s = now_s + self._run_s(job)
        if self._events.has_releases:
            self._events.push(end_s, RunReleased(run))
        self._events.push(end_s, RunEnded(run))

    def stop(self, run: RunId, now_s: float) -> DispatchOrder:
        """End a run, for whatever reason, and free its nodes."""
        self.give_back(run, now_s)
        return self._active.pop(run)

    def change(self, subject: int | str, up: bool) -> bool:
        """A node goes down or comes back. False where another outage hides the change."""
        if not isinstance(subject, int):
            return False
        before = self._outages.pop(subject, 0)
        after = before + (-1 if up else 1)
        if after:
            self._outages[subject] = after
        return (before == 0) != (after == 0)

    def runs_hit_by(self, subject: int | str) -> list[RunId]:
        """The active run that holds a node."""
        return [run for run, nodes in self._holding.items() if subject in nodes]
