"""The state of free nodes, each for one job."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.free_nodes.problem import FreeNodes, FreeNodesProblem
from scheduler.free_nodes.waiting import WaitingJobs
from scheduler.managers.starting_manager import NodeAllocation
from scheduler.model import Completion, Job, RunId, Start
from scheduler.node_set import NodeSet
from scheduler.ports import RuntimeEstimator
from scheduler.problem import Running


class FreeNodeAllocation(NodeAllocation):
    """A machine of identical nodes; `run_times` estimates run times.

    A job is estimated once, when it arrives, and again when a run exceeds its estimate.
    """

    def __init__(self, n_nodes: int, run_times: RuntimeEstimator) -> None:
        self._nodes = FreeNodes(n_nodes)
        self._run_times = run_times
        self.waiting: WaitingJobs = self._nodes.waiting
        self._began: dict[RunId, tuple[Job, float]] = {}
        """The running jobs and their start times."""
        self._holding: dict[RunId, tuple[NodeSet, float]] = {}
        """The nodes of each run, and its expected end."""
        self._down: set[int] = set()

    def submit(self, job: Job) -> str | None:
        if not 1 <= job.n_tasks <= self._nodes.n_nodes:
            return f"job {job.id} asks for {job.n_tasks} nodes; the machine has {self._nodes.n_nodes}"
        self.waiting.add(job, self._run_times.estimate_s(job))
        return None

    def problem(self, now_s: float, running: Mapping[RunId, Running]) -> FreeNodesProblem:
        return FreeNodesProblem(now_s, self._nodes, running)

    def nothing_fits(self) -> bool:
        return self.waiting.least_size > self._nodes.free.n

    def start(self, run: RunId, job: Job, start: Start, now_s: float) -> None:
        _, held, end_s, _ = start
        if not isinstance(held, NodeSet):
            held = NodeSet.of(held)
        self.waiting.remove(job.id)
        self._nodes.free.take(held)
        self._nodes.releases.add(end_s, held.n, run)
        if self.outlived_at_s is None or end_s < self.outlived_at_s:
            self.outlived_at_s = end_s
        self._began[run] = job, now_s
        self._holding[run] = held, end_s

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
        self.waiting.add(job, self._run_times.estimate_s(job))

    def set_available(self, node: int, is_available: bool) -> None:
        if is_available == (node not in self._down):
            return
        (self._down.discard if is_available else self._down.add)(node)
        if any(node in nodes for nodes, _ in self._holding.values()):
            return  # it becomes available, or not, when the run gives it back
        (self._nodes.free.give_back if is_available else self._nodes.free.take)(NodeSet.of([node]))

    def reestimate(self, now_s: float) -> None:
        releases = self._nodes.releases
        while (end_s := releases.first_s()) is not None and end_s <= now_s:
            run = releases.first_run
            (job, began_s), (nodes, _) = self._began[run], self._holding[run]
            releases.drop(end_s, run)
            # After now, or time would not advance.
            later_s = max(began_s + self._run_times.outlived_s(job, now_s - began_s), now_s + 1.0)
            releases.add(later_s, nodes.n, run)
            self._holding[run] = nodes, later_s
        self.outlived_at_s = releases.first_s()

    def _give_back(self, run: RunId) -> None:
        held = self._holding.pop(run, None)
        if held is None:
            return  # it gave back its nodes earlier
        nodes, end_s = held
        releases = self._nodes.releases
        releases.drop(end_s, run)
        if end_s == self.outlived_at_s:
            self.outlived_at_s = releases.first_s()
        self._nodes.free.give_back(nodes if not self._down else NodeSet.of(set(nodes) - self._down))
