"""The state of nodes: which jobs wait for them and which run on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from scheduler.model import Completion, Job, NodeReading, RunId, Start
from scheduler.problem import Running, SchedulingProblem


class NodeAllocation(ABC):
    """Updated by notices; schedulers see it as a problem.

    `TimeSharedAllocation` is for nodes that run several jobs at once, `FreeNodeAllocation` for one job each.
    """

    waiting: Sequence[Job]
    """In order of arrival, then id."""

    outlived_at_s: float | None = None
    """When the next run will exceed its estimate; None if that does not matter."""

    @abstractmethod
    def take_in(self, job: Job) -> str | None:
        """Queue a job. Returns None, or the reason for refusing it."""

    @abstractmethod
    def problem(self, now_s: float, running: Mapping[RunId, Running]) -> SchedulingProblem:
        """The problem for the scheduler, now."""

    @abstractmethod
    def start(self, run: RunId, job: Job, start: Start, now_s: float) -> None:
        """Start a waiting job."""

    @abstractmethod
    def end(self, run: RunId, completion: Completion) -> None:
        """Complete a running job."""

    @abstractmethod
    def come_to_nothing(self, run: RunId) -> None:
        """A running job lost its nodes and its progress: queue it again."""

    @abstractmethod
    def tell_available(self, node: int, is_available: bool) -> None:
        """Mark a node as up or down."""

    def nobody_fits(self) -> bool:
        """Whether certainly no waiting job can start now."""
        return False

    def hear(self, reading: NodeReading) -> bool:
        """Take in a reading of local users. Returns whether the scheduler should be called again."""
        return False

    def release(self, run: RunId, now_s: float) -> None:
        """A run is about to end; if that was expected, its nodes are free already."""
        return

    def outlived(self, now_s: float) -> None:
        """Re-estimate the runs that should have ended by now."""
        return
