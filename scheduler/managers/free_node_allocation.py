"""The state of free nodes: identical ones, each for one job. Others are in `consumable_allocation`."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.free_nodes.identical_nodes import FreeNodes, WaitingJobs
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.managers.queues import never_fits
from scheduler.managers.starting_manager import NodeAllocation
from scheduler.model import (
    Job,
    RunId,
    Share,
    Start,
)
from scheduler.node_set import NodeSet
from scheduler.notices import RunEnded
from scheduler.ports import RuntimeEstimator
from scheduler.problem import Running


class FreeNodeAllocation(NodeAllocation[FreeNodesProblem]):
    """A machine of identical nodes, each for one job.

    A job is estimated once, when it arrives, and again when a run exceeds its estimate.
    """

    def __init__(self, n_nodes: int, run_times: RuntimeEstimator) -> None:
        self._nodes = FreeNodes(n_nodes)
        self._run_times = run_times
        self.waiting: WaitingJobs = self._nodes.waiting

    @property
    def outlived_at_s(self) -> float | None:
        return self._nodes.first_end_s()

    def submit(self, job: Job) -> str | None:
        refused = never_fits(job.id, job.n_tasks, self._nodes.n_nodes)
        if refused is None:
            self._wait(job)
        return refused

    def problem(self, now_s: float, running: Mapping[RunId, Running]) -> FreeNodesProblem:
        return FreeNodesProblem(now_s, self._nodes, running)

    def nothing_fits(self) -> bool:
        return self._nodes.nothing_fits()

    def start(self, run: RunId, job: Job, start: Start, now_s: float) -> tuple[Share, ...]:
        self._nodes.start(run, job.id, NodeSet.of(start.nodes), now_s, start.completion_s)
        return ()

    def end(self, run: RunId, ended: RunEnded) -> None:
        job, began_s = self._nodes.end(run)
        if not ended.failed:
            self._run_times.learn(job, ended.run_time_s(began_s))

    def release(self, run: RunId, now_s: float) -> None:
        self._nodes.release(run, now_s)

    def requeue(self, run: RunId) -> None:
        job, _ = self._nodes.end(run)
        self._wait(job)

    def set_available(self, node: int, is_available: bool) -> None:
        self._nodes.set_available(node, is_available)

    def reestimate(self, now_s: float) -> None:
        while (overdue := self._nodes.overdue(now_s)) is not None:
            run, job, ran_s = overdue
            self._nodes.takes_longer(run, self._run_times.outlived_s(job, ran_s), now_s)

    def _wait(self, job: Job) -> None:
        self.waiting.add(job, self._run_times.estimate_s(job))
