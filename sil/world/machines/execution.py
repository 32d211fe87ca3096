"""The interface of simulated machines, for the event loop and the dispatcher."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from scheduler.model import DispatchOrder, JobId, RunId
from sil.world.failures import Hindrances


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

    def down_for(self, order: DispatchOrder) -> tuple[int | str, ...]:
        """What an order needs that is down: machines by index, interconnects by name."""
        return tuple(n for n in self._outages if n in order.machines) if self._outages else ()

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
        # Not reached: only Slurm's controller suspends runs, and it manages nodes, which can.
        raise NotImplementedError("runs on these machines cannot be suspended")

    def resume(self, run: RunId, now_s: float) -> DispatchOrder:
        """Let a suspended run continue. Returns the order that started it. Raises SchedulerFault if it
        cannot."""
        raise NotImplementedError("runs on these machines cannot be suspended")  # as above

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
