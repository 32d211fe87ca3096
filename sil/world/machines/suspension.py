"""Machines on which runs can be suspended: they keep what they have done, and give up their processors."""

from __future__ import annotations

from abc import abstractmethod
from math import inf

from scheduler.model import DispatchOrder, RunId
from scheduler.rules import NODES_FREE
from sil.world.events import EndDue, EventQueue, ReleaseDue
from sil.world.guard.faults import SchedulerFault
from sil.world.hindrances import Hindrances
from sil.world.machines.execution import ExecutionModel


class SuspendingMachines(ExecutionModel):
    """A run that is suspended keeps its nodes, and others may use their processors until it continues."""

    _active: dict[RunId, DispatchOrder]

    def __init__(self, events: EventQueue, hindrances: Hindrances | None = None) -> None:
        super().__init__(hindrances)
        self._events = events
        self._active = {}
        self._ends_s: dict[RunId, float] = {}
        """When active runs will be complete; infinite while they are suspended."""
        self._left_s: dict[RunId, float] = {}
        """Of runs that are suspended."""

    def has_ended(self, run: RunId, now_s: float) -> bool:
        return self._ends_s.get(run, inf) <= now_s

    def suspend(self, run: RunId, now_s: float) -> DispatchOrder:
        """An active run stops. Returns its order."""
        order = self._active[run]
        self._left_s[run], self._ends_s[run] = self._ends_s[run] - now_s, inf
        self._give_up_processors(order)
        return order

    def resume(self, run: RunId, now_s: float) -> DispatchOrder:
        """It continues. Returns its order. Raises SchedulerFault if its processors are not free."""
        order = self._active[run]
        if (why := self._why_not_resumed(order)) is not None:
            job = order.job.id
            raise SchedulerFault(NODES_FREE, f"job {job} was to continue, but {why}", now_s, job)
        self._take_processors(order)
        self._will_end(run, now_s + self._left_s.pop(run))
        return order

    def is_suspended(self, run: RunId) -> bool:
        return run in self._left_s

    def _will_end(self, run: RunId, end_s: float) -> None:
        self._ends_s[run] = end_s
        if self._events.has_releases:
            self._events.push(end_s, ReleaseDue(run))
        self._events.push(end_s, EndDue(run))

    def _forget(self, run: RunId) -> None:
        """It is over."""
        del self._ends_s[run]
        self._left_s.pop(run, None)

    @abstractmethod
    def _give_up_processors(self, order: DispatchOrder) -> None: ...

    @abstractmethod
    def _why_not_resumed(self, order: DispatchOrder) -> str | None:
        """Why a run cannot continue, as a clause; None if it can."""

    @abstractmethod
    def _take_processors(self, order: DispatchOrder) -> None: ...
