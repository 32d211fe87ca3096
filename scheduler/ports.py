"""The ports of the scheduling manager: small protocols that real and fake adapters fit by shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from scheduler.model import (
    DispatchOrder,
    InterconnectReading,
    Job,
    MachineReading,
    NodeReading,
    RunId,
)


class Scheduler(Protocol):
    """Decides for one queue in one round: a pure function of the problem, and of what it remembers.

    The problem and its answer are those of one kind (`scheduler.kinds`): `MappingProblem` and `Schedule`,
    `FreeNodesProblem` or `TimeSharedProblem` and `NodeSchedule`. A class may declare, as attributes:

    * `kind`: a `Kind`, or its name. Without it, the class gets the problems of the command that runs it.
    * `memoryless = True`: it decides from the problem alone, so it is not called while no job fits.
    * `is_random = True`: its constructor takes a parameter `seed`, an integer, which the caller supplies.
    """

    def schedule(self, problem: Any) -> Any: ...


class Clock(Protocol):
    @property
    def now_s(self) -> float: ...


class Dispatcher(Protocol):
    """Carries orders to the machines. What becomes of them is told to the manager's `on_*` notices."""

    def dispatch(self, order: DispatchOrder) -> None: ...

    def preempt(self, run: RunId) -> None: ...


class Monitor(Protocol):
    """Watches machines and interconnects."""

    def news(self) -> Sequence[MachineReading | InterconnectReading]:
        """Readings that differ from what was last told, oldest first; each is told once."""
        ...


class NodeMonitor(Protocol):
    """Watches nodes: whether they are up, and their local load."""

    def news(self) -> Sequence[NodeReading | MachineReading]:
        """Readings since the last call, oldest first."""
        ...


class RuntimeEstimator(Protocol):
    """What is believed of the run times of rigid jobs, which are the same on all nodes of a machine."""

    def estimate_s(self, job: Job) -> float:
        """Expected seconds of a job that is submitted, above 0."""
        ...

    def outlived_s(self, job: Job, ran_s: float) -> float:
        """The same of one that has run for `ran_s`, which is as long as was expected, and goes on."""
        ...

    def learn(self, job: Job, ran_s: float) -> None:
        """A job ran to its end."""
        ...
