"""The host of a run: where its schedulers are asked, in this process or as in `sil.isolation.judging`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

from scheduler.ports import AnyScheduler
from scheduler.registry import SchedulerSpec
from scheduler.resource_manager import Manager, Ports
from scheduler.rules import RETURNS_IN_TIME
from sil.world.guard.decision_time import TimeLimitExceeded, time_limit
from sil.world.guard.faults import SchedulerFault
from sil.world.guard.manager import ManagerHere
from sil.world.guard.scheduler import MAKING_LIMIT_S, Guard, Respondent, TimedScheduler


class Host(ABC):
    """Makes the schedulers and resource managers of one run, and hears how it ends."""

    @abstractmethod
    def respondent(self, spec: SchedulerSpec, seed: int, guard: Guard) -> Respondent:
        """A new instance of a scheduler. Raises SchedulerFault if it cannot be made."""

    @abstractmethod
    def manager(self, spec: SchedulerSpec, seed: int, ports: Ports, guard: Guard) -> Manager:
        """A resource manager. Raises SchedulerFault if it cannot be made."""

    def input(self, read: Callable[[], bytes]) -> bytes:
        """What a run reads from outside, where `read` is called once for both sides."""
        return read()

    def faulted(self, fault: SchedulerFault) -> None:  # noqa: B027 (the trace has it)
        """The run has ended with a fault."""

    def over(self) -> None:  # noqa: B027 (the results follow)
        """All jobs have ended."""


class ThisProcess(Host):
    """For built-in schedulers, and those whose author asks for it. Faults are raised, too, if there is a name
    of the scheduler to say whose they are."""

    def __init__(self, raises_as: str | None = None) -> None:
        self._raises_as = raises_as

    def respondent(self, spec: SchedulerSpec, seed: int, guard: Guard) -> Respondent:
        return TimedScheduler(made(spec, seed, guard), guard, is_watched=not spec.is_built_in)

    def manager(self, spec: SchedulerSpec, seed: int, ports: Ports, guard: Guard) -> Manager:
        return ManagerHere(partial(spec.make_manager, seed=seed), ports, guard, spec.target)

    def faulted(self, fault: SchedulerFault) -> None:
        if self._raises_as is not None:
            raise fault.named(self._raises_as)


HERE = ThisProcess()


def made(spec: SchedulerSpec, seed: int, guard: Guard) -> AnyScheduler:
    """A new instance of a scheduler. Raises SchedulerFault."""
    module, _, name = spec.target.partition(":")
    try:
        with time_limit(max(guard.limit_s, MAKING_LIMIT_S)):
            return spec.make(seed)
    except TimeLimitExceeded:
        raise SchedulerFault(RETURNS_IN_TIME, f"{name}() did not return", guard.clock.now_s) from None
    except BaseException as error:
        raise guard.fault_of(error, f"{name}()", module) from error
