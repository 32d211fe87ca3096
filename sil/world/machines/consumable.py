"""Nodes with cores, memory and GPUs, of which runs use parts. Neighbours do not change run times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from scheduler.model import DispatchOrder, Job, RunId
from scheduler.node_request import Node
from scheduler.rules import KNOWN_NODES, NODES_FREE
from sil.world.events import EventQueue
from sil.world.failures import Hindrances
from sil.world.guard.faults import SchedulerFault
from sil.world.machines.execution import SuspendingMachines
from sil.world.node_usage import NodeUsage


class ConsumableMachines(SuspendingMachines):
    """The actual state of `nodes` and of the site's resources; `run_s` is the actual run time of a job on
    some of the nodes."""

    def __init__(
        self,
        nodes: Sequence[Node],
        run_s: Callable[[Job, Sequence[int]], float],
        events: EventQueue,
        site_resources: Mapping[str, int] = MappingProxyType({}),
        hindrances: Hindrances | None = None,
    ) -> None:
        super().__init__(events, hindrances)
        self._usage = NodeUsage(nodes, site_resources)
        self._run_s = run_s
        self._holding: set[RunId] = set()

    def release(self, run: RunId, now_s: float) -> bool:
        return self.has_ended(run, now_s) and self._give_back(run)

    def _give_back(self, run: RunId) -> bool:
        if run not in self._holding:
            return False
        self._holding.remove(run)
        order = self._active[run]
        assert order.job.request is not None
        if self.is_suspended(run):
            self._usage.resume(order.job.request, order.shares)
        self._usage.give_back(order.job.request, order.shares)
        return True

    def down_for(self, order: DispatchOrder) -> tuple[int | str, ...]:
        return tuple(n for n in self._outages if n in order.machines) if self._outages else ()

    def check(self, order: DispatchOrder, now_s: float) -> None:
        """Raises SchedulerFault for shares of nodes that are not free or not what the job requests, and for a
        job that requests more of the site's resources than is left."""
        job, shares = order.job, order.shares
        if job.request is None or {share.node for share in shares} != set(order.machines):
            message = f"job {job.id} was dispatched to nodes {order.machines} with shares of others, or none"
            raise SchedulerFault(KNOWN_NODES, message, now_s, job.id)
        why = self._usage.why_not(job.request, shares)
        if why is not None:
            message = f"job {job.id} was dispatched, but {why}"
            raise SchedulerFault(NODES_FREE, message, now_s, job.id)

    def start(self, order: DispatchOrder, now_s: float) -> None:
        assert order.job.request is not None
        self._usage.take(order.job.request, order.shares)
        self._active[order.run] = order
        self._holding.add(order.run)
        run_s = self._run_s(order.job, order.machines)
        self._will_end(order.run, now_s + self._hindered_s(order, run_s, now_s))

    def stop(self, run: RunId, now_s: float) -> DispatchOrder:
        self._give_back(run)
        self._forget(run)
        return self._active.pop(run)

    def _give_up_processors(self, order: DispatchOrder) -> None:
        assert order.job.request is not None
        self._usage.suspend(order.job.request, order.shares)

    def _why_not_resumed(self, order: DispatchOrder) -> str | None:
        assert order.job.request is not None
        return self._usage.why_not_resumed(order.job.request, order.shares)

    def _take_processors(self, order: DispatchOrder) -> None:
        assert order.job.request is not None
        self._usage.resume(order.job.request, order.shares)

    def runs_hit_by(self, subject: int | str) -> list[RunId]:
        active = self._active.items()
        return [run for run, order in active if run in self._holding and subject in order.machines]
