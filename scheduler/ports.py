"""The ports of the scheduling manager: small protocols that real and fake adapters fit by shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from scheduler.etc import EtcMatrix
from scheduler.model import (
    DispatchOrder,
    ExecutionRecord,
    InterconnectReading,
    Job,
    MachineReading,
    RunId,
    Schedule,
)
from scheduler.problem import SchedulingProblem


class Scheduler(Protocol):
    """Decides for one queue in one round. Returns data, touches nothing.

    One that looks at nothing but the problem may say so by an attribute `memoryless = True`; then it need not
    be asked where no job could start anyway.
    """

    def schedule(self, problem: SchedulingProblem) -> Schedule: ...


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


class Experience(Protocol):
    """What past runs say about how long jobs take."""

    def estimate(self, jobs: Sequence[Job], members: Sequence[int]) -> EtcMatrix:
        """Expected seconds of `jobs` on every resource of the site, with so many members of each cluster."""
        ...

    def record(self, record: ExecutionRecord) -> None:
        """Learn from one whole run."""
        ...
