"""Where the schedulers of a run are asked: in this process, or as in `sil.isolation.judging`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from scheduler.ports import Scheduler
from scheduler.registry import SchedulerSpec
from scheduler.resource_manager import Ports, ResourceManager
from scheduler.rules import RETURNS_IN_TIME
from sil.world.guard.asking import MAKING_LIMIT_S, Respondent
from sil.world.guard.faults import SchedulerFault, fault_of
from sil.world.guard.manager import GuardedManager
from sil.world.guard.scheduler import Guard
from sil.world.guard.time_limit import TimeLimitExceeded, time_limit


class Side(ABC):
    """Where the schedulers of a run are asked."""

    @abstractmethod
    def respondent(self, spec: SchedulerSpec, seed: int, guard: Guard) -> Respondent:
        """A new instance of a scheduler. Raises SchedulerFault if it cannot be made."""

    @abstractmethod
    def manager(self, spec: SchedulerSpec, seed: int, ports: Ports, guard: Guard) -> ResourceManager:
        """A resource manager. Raises SchedulerFault if it cannot be made."""

    def input(self, read: Callable[[], bytes]) -> bytes:
        """What a run reads from outside, where `read` is called once for both sides."""
        return read()

    def faulted(self, fault: SchedulerFault) -> None:  # noqa: B027 (the trace has it)
        """The run has ended with a fault."""

    def over(self) -> None:  # noqa: B027 (the results follow)
        """All jobs have ended."""


class InThisProcess(Side):
    """For built-in schedulers, and those whose author asks for it."""

    def respondent(self, spec: SchedulerSpec, seed: int, guard: Guard) -> Respondent:
        return guard.timed(made(spec, seed, guard), is_watched=not spec.is_built_in)

    def manager(self, spec: SchedulerSpec, seed: int, ports: Ports, guard: Guard) -> ResourceManager:
        return GuardedManager(lambda ports: spec.make_manager(ports, seed), ports, guard, spec.target)


HERE = InThisProcess()
_side: ContextVar[Side] = ContextVar("side", default=HERE)


def side() -> Side:
    """That of this process."""
    return _side.get()


@contextmanager
def on(side: Side) -> Iterator[None]:
    before = _side.set(side)
    try:
        yield
    finally:
        _side.reset(before)


def made(spec: SchedulerSpec, seed: int, guard: Guard) -> Scheduler:
    """A new instance of a scheduler. Raises SchedulerFault."""
    name = spec.target.partition(":")[2]
    try:
        with time_limit(max(guard.limit_s, MAKING_LIMIT_S)):
            return spec.make(seed)
    except TimeLimitExceeded:
        raise SchedulerFault(RETURNS_IN_TIME, f"{name}() did not return", guard.clock.now_s) from None
    except BaseException as error:
        module = spec.target.partition(":")[0]
        raise fault_of(error, f"{name}()", module, guard.clock.now_s) from error
