"""The interface of simulated machines, for the event loop and the dispatcher."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import inf

from scheduler.model import DispatchOrder, JobId, RunId
from scheduler.rules import NODES_FREE
from sil.world.events import EndDue, EventQueue, ReleaseDue
from sil.world.failures import Hindrances
from sil.world.guard.faults import SchedulerFault


class ExecutionModel(ABC):
    """Executes runs, whose actual run times only it has. Completions are events, `EndDue`."""

    _active: Mapping[RunId, object]

    def __init__(self, hindrances: Hindrances | None = None) -> None:
        self._hindrances = hindrances
        self._outages: dict[int | str, int] = {}
        """The number of current outages of each machine and interconnect that is down."""

    @property
    def is_idle(self) -> bool:
        """Whether no run is active."""
        return not self._active

    def is_active(self, run: RunId) -> bool:
        return run in self._active

    def has_ended(self, run: RunId, now_s: float) -> bool:
        """Whether an active run is complete. An event may be out of date, if the completion has moved."""
        return run in self._active

    def has_failed(self, run: RunId, job: JobId) -> bool:
        """Whether a run that has come to its end has failed. Asked once for each."""
        return self._hindrances is not None and self._hindrances.has_failed(run, job)

    def release(self, run: RunId, now_s: float) -> bool:
        """Free what a run holds before its completion is reported. False if it holds that until then."""
        return False

    @abstractmethod
    def down_for(self, order: DispatchOrder) -> tuple[int | str, ...]:
        """What an order needs that is down: machines by index, interconnects by name."""

    @abstractmethod
    def check(self, order: DispatchOrder, now_s: float) -> None:
        """Raises SchedulerFault for an order that was wrong when it was given."""

    @abstractmethod
    def start(self, order: DispatchOrder, now_s: float) -> None:
        """Carry out an order that has been checked."""

    @abstractmethod
    def stop(self, run: RunId, now_s: float) -> DispatchOrder:
        """End a run, for any reason, and free what it holds. Returns the order that started it."""

    def _hindered_s(self, order: DispatchOrder, usual_s: float, now_s: float) -> float:
        """The actual seconds of a run that starts now and usually takes `usual_s`."""
        return usual_s if self._hindrances is None else self._hindrances.run_s(order, usual_s, now_s)

    def is_suspended(self, run: RunId) -> bool:
        return False

    def suspend(self, run: RunId, now_s: float) -> DispatchOrder:
        """Stop an active run, which keeps what it has done. Returns the order that started it."""
        raise NotImplementedError("runs on these machines cannot be suspended")

    def resume(self, run: RunId, now_s: float) -> DispatchOrder:
        """Let a suspended run continue. Returns the order that started it. Raises SchedulerFault if it
        cannot."""
        raise NotImplementedError("runs on these machines cannot be suspended")

    @abstractmethod
    def runs_hit_by(self, subject: int | str) -> list[RunId]:
        """The active runs that cannot continue now that `subject` is down."""

    def known_as(self, subject: int | str) -> tuple[int | str, ...]:
        """What the resource manager knows `subject` as: itself, or the slots of a machine, by index."""
        return (subject,)

    def is_down(self, place: int) -> bool:
        """Whether a machine is down, as the resource manager knows it: by index, also of one of its slots."""
        return place in self._outages

    def change(self, subject: int | str, up: bool) -> bool:
        """A machine or interconnect goes down or comes back. False if another outage hides the change."""
        before = self._outages.pop(subject, 0)
        after = before + (-1 if up else 1)
        if after:
            self._outages[subject] = after
        return (before == 0) != (after == 0)


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
