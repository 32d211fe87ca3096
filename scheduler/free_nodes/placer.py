"""Starting jobs one after another: the bookkeeping that one-pass algorithms for free nodes share."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.model import NodeSchedule, Start
from scheduler.wait_reasons import AllOthers


class Placer:
    """One pass that starts jobs on the free nodes with the lowest numbers; all other jobs wait.

    Read `n_free`, call `start(i)` for job i of the problem, and return `schedule(reason)`.
    """

    def __init__(self, problem: FreeNodesProblem) -> None:
        self._problem = problem
        self._nodes = problem.free_nodes
        self._starts: list[Start] = []
        self._taken = 0
        self._in_order = self._nodes.free.in_order()

    @property
    def n_free(self) -> int:
        """Free nodes, less those assigned in this pass."""
        return self._nodes.free.n - self._taken

    def start(self, i: int) -> None:
        """Start job i now. Raises ValueError if it needs more nodes than are free."""
        job = self._problem.jobs[i]
        if job.n_tasks > self.n_free:
            raise ValueError(f"job {job.id} needs {job.n_tasks} nodes, and {self.n_free} are free")
        self.start_with(i, job.n_tasks, self._problem.now_s + self._nodes.waiting.estimate_s(job.id))

    def start_with(self, i: int, n_nodes: int, completion_s: float) -> None:
        """As `start`, for a caller that has already looked up the job; checks nothing."""
        self._starts.append(Start(i, self._in_order.next(n_nodes), completion_s))
        self._taken += n_nodes

    def schedule(self, reason: str, in_detail: Callable[[int], str] | None = None) -> NodeSchedule:
        """The jobs started; the others wait for `reason`, or for job i in detail `in_detail(i)`."""
        starts = tuple(self._starts)
        return NodeSchedule(starts, AllOthers(self._problem.n_jobs, starts, reason, in_detail))
