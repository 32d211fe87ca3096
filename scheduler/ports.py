"""The ports of schedulers and resource managers: small protocols with real and fake adapters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from scheduler.model import (
    DispatchOrder,
    InterconnectReading,
    Job,
    JobId,
    MachineReading,
    NodeReading,
    RunId,
)

P = TypeVar("P", contravariant=True)
D = TypeVar("D", covariant=True)


class Scheduler(Protocol[P, D]):
    """Decides for one queue in one round: a pure function of the problem, and of what it remembers.

    The problem and its answer are those of one kind (`scheduler.rules`): `MappingProblem` and `Schedule`,
    `FreeNodesProblem` or `TimeSharedProblem` and `NodeSchedule`. A class may declare, as attributes:

    * `kind`: a `Kind`, or its name. Without it, the class gets the problems of the command that runs it.
    * `memoryless = True`: it decides from the problem alone, so it is not called while no job fits.
    * `is_random = True`: its constructor takes a parameter `seed`, an integer, which the caller supplies.
    """

    def schedule(self, problem: P) -> D: ...


AnyScheduler = Scheduler[Any, Any]
"""Of a kind that is known when the program runs."""


class Clock(Protocol):
    @property
    def now_s(self) -> float: ...


class Dispatcher(Protocol):
    """Carries out orders on the machines. The results reach the resource manager as notices."""

    def dispatch(self, order: DispatchOrder) -> None: ...

    def preempt(self, run: RunId) -> None: ...


class UnreliableDispatcher(Dispatcher, Protocol):
    """Sends orders to machines over a network that may lose, delay, repeat or reorder messages.

    A run id makes an order idempotent: it is started once however often its order arrives, and never after an
    order to stop it, whichever arrives first. The machine that leads a run, the first of its order, answers:
    `OrderReceived` when it starts, and when it is over one notice, which is repeated until acknowledged.
    """

    def abandon(self, run: RunId) -> None:
        """Stop a run, which no longer counts, even if it has ended."""

    def acknowledge(self, run: RunId) -> None:
        """The notice that a run is over has arrived."""

    def ping(self, machine: int) -> None:
        """Ask a machine to answer (`MachineAnswered`)."""

    def give_up(self, job: JobId, why: str) -> None:
        """Tell the user of a job that it is not run again; reliable, and idempotent."""


class Monitor(Protocol):
    """Watches machines and interconnects."""

    def news(self) -> Sequence[MachineReading | InterconnectReading]:
        """Readings that have changed since the last call, oldest first."""
        ...


class NodeMonitor(Protocol):
    """Watches nodes: whether they are up, and their local load."""

    def news(self) -> Sequence[NodeReading | MachineReading]:
        """Readings since the last call, oldest first."""
        ...


class RuntimeEstimator(Protocol):
    """Run-time estimates of rigid jobs; the nodes are identical."""

    def estimate_s(self, job: Job) -> float:
        """Estimated seconds of a submitted job; less than a millisecond counts as one."""
        ...

    def outlived_s(self, job: Job, ran_s: float) -> float:
        """A new estimate for a job that is still running after `ran_s`, its previous estimate."""
        ...

    def learn(self, job: Job, ran_s: float) -> None:
        """Add a completed run."""
        ...
