"""What a queue manager keeps of nodes: which jobs wait for them, and what runs on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from scheduler.model import Completion, Job, NodeReading, RunId, Start
from scheduler.problem import Running, SchedulingProblem


class NodeAllocation(ABC):
    """Kept up to date by notices; a scheduler sees it through a problem.

    `TimeSharedAllocation` keeps nodes that run several jobs at once, `FreeNodeAllocation` nodes that run one.
    """

    waiting: Sequence[Job]
    """In order of arrival, then id."""

    outlived_at_s: float | None = None
    """When the next run will have gone on for longer than is believed; None = that makes no difference."""

    @abstractmethod
    def take_in(self, job: Job) -> str | None:
        """A job waits. Returns None, or the sentence with which it is refused."""

    @abstractmethod
    def problem(self, now_s: float, running: Mapping[RunId, Running]) -> SchedulingProblem:
        """What the scheduler is asked now."""

    @abstractmethod
    def start(self, run: RunId, job: Job, start: Start, now_s: float) -> None:
        """A waiting job starts."""

    @abstractmethod
    def end(self, run: RunId, completion: Completion) -> None:
        """A running job is done."""

    @abstractmethod
    def come_to_nothing(self, run: RunId) -> None:
        """A running job lost its nodes, and all progress; it waits again."""

    @abstractmethod
    def tell_available(self, node: int, is_available: bool) -> None:
        """A node may be used, or not."""

    def nobody_fits(self) -> bool:
        """Whether it is plain that none of the jobs that wait can start now."""
        return False

    def hear(self, reading: NodeReading) -> bool:
        """Local users of a node were seen. Returns whether the scheduler should be asked again."""
        return False

    def release(self, run: RunId, now_s: float) -> None:
        """A run ends now, which will be told; where that was believed, its nodes are free already."""
        return

    def outlived(self, now_s: float) -> None:
        """Believe something else of the runs that were believed to have ended by now, and have not."""
        return
