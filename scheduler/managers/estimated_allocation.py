"""Runs that hold nodes until about their estimated ends, whatever the nodes are like."""

from __future__ import annotations

from abc import abstractmethod

from scheduler.free_nodes.kernels.estimates import SHORTEST_S
from scheduler.free_nodes.kernels.releases import Releases
from scheduler.managers.starting_manager import NodeAllocation
from scheduler.model import Completion, Job, RunId, Share, Start
from scheduler.node_set import NodeSet
from scheduler.ports import RuntimeEstimator


class EstimatedAllocation(NodeAllocation):
    """Runs that hold nodes until about an estimated time; `run_times` estimates run times.

    A job is estimated once, when it arrives, and again when a run exceeds its estimate.
    """

    def __init__(self, run_times: RuntimeEstimator, releases: Releases) -> None:
        self._run_times = run_times
        self._releases = releases
        self._began: dict[RunId, tuple[Job, float]] = {}
        """The running jobs and their start times."""
        self._holding: dict[RunId, tuple[NodeSet, float]] = {}
        """The nodes of each run, and its expected end."""

    def start(self, run: RunId, job: Job, start: Start, now_s: float) -> tuple[Share, ...]:
        _, held, end_s, _ = start
        if not isinstance(held, NodeSet):
            held = NodeSet.of(held)
        if self.outlived_at_s is None or end_s < self.outlived_at_s:
            self.outlived_at_s = end_s
        self._began[run] = job, now_s
        self._holding[run] = held, end_s
        return self._take(run, job, held, start)

    def end(self, run: RunId, completion: Completion) -> None:
        self._give_back(run)
        job, began_s = self._began.pop(run)
        self._run_times.learn(job, completion.ended_s - began_s)

    def release(self, run: RunId, now_s: float) -> None:
        if run in self._holding and self._holding[run][1] == now_s:
            self._give_back(run)

    def requeue(self, run: RunId) -> None:
        self._give_back(run)
        job, _ = self._began.pop(run)
        self._wait(job)

    def reestimate(self, now_s: float) -> None:
        releases = self._releases
        while (end_s := releases.first_s()) is not None and end_s <= now_s:
            run = releases.first_run
            (job, began_s), (nodes, _) = self._began[run], self._holding[run]
            # After now, or time would not advance.
            later_s = max(began_s + self._run_times.outlived_s(job, now_s - began_s), now_s + 1.0)
            self._expect(run, nodes, end_s, later_s)
            self._holding[run] = nodes, later_s
        self.outlived_at_s = releases.first_s()

    def _estimate_s(self, job: Job) -> float:
        return max(self._run_times.estimate_s(job), SHORTEST_S)

    def _give_back(self, run: RunId) -> None:
        held = self._holding.pop(run, None)
        if held is None:
            return  # it gave back its nodes earlier
        nodes, end_s = held
        self._let_go(run, nodes, end_s)
        if end_s == self.outlived_at_s:
            self.outlived_at_s = self._releases.first_s()

    @abstractmethod
    def _wait(self, job: Job) -> None:
        """Queue a job."""

    @abstractmethod
    def _take(self, run: RunId, job: Job, nodes: NodeSet, start: Start) -> tuple[Share, ...]:
        """A waiting job takes its nodes, until about `start.completion_s`."""

    @abstractmethod
    def _let_go(self, run: RunId, nodes: NodeSet, end_s: float) -> None:
        """A run that was expected to end at `end_s` gives back its nodes."""

    @abstractmethod
    def _expect(self, run: RunId, nodes: NodeSet, before_s: float, end_s: float) -> None:
        """A run that was expected to end at `before_s` is now expected to end at `end_s`."""
