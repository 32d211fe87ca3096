"""What the loop and the dispatcher need of simulated machines."""

from __future__ import annotations

from typing import Protocol

from scheduler.model import DispatchOrder, RunId


class ExecutionModel(Protocol):
    """Runs go on here, and only here is it known how fast. Ends come as events, `RunEnded`."""

    @property
    def is_idle(self) -> bool:
        """Whether no run is active."""
        ...

    def is_active(self, run: RunId) -> bool: ...

    def has_ended(self, run: RunId, now_s: float) -> bool:
        """Whether an active run is over now. An event may be out of date: the end has moved since."""
        ...

    def give_back(self, run: RunId, now_s: float) -> bool:
        """An active run that is over now gives back what it holds, before its end is told. False where it
        does not."""
        ...

    def down_for(self, order: DispatchOrder) -> tuple[int | str, ...]:
        """What an order needs and finds down: machines by index, interconnects by name."""
        ...

    def check(self, order: DispatchOrder, now_s: float) -> None:
        """Raises SchedulerFault for an order that was wrong when it was given."""
        ...

    def start(self, order: DispatchOrder, now_s: float) -> None:
        """Carry out an order that was checked."""
        ...

    def stop(self, run: RunId, now_s: float) -> DispatchOrder:
        """End a run, for whatever reason. Returns the order with which it began."""
        ...

    def change(self, subject: int | str, up: bool) -> bool:
        """A machine or interconnect goes down or comes back. False where that makes no difference."""
        ...

    def runs_hit_by(self, subject: int | str) -> list[RunId]:
        """The active runs that cannot go on now that `subject` is down."""
        ...
