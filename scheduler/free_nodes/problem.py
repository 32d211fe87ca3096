"""The view of rigid jobs: free nodes, the jobs that wait for them, and what is believed of their release."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.free_nodes.releases import Releases
from scheduler.free_nodes.waiting import WaitingJobs
from scheduler.model import Placement, Schedule
from scheduler.node_set import FreeSet
from scheduler.problem import SchedulingProblem
from scheduler.wait_reasons import AllOthers


class FreeNodes:
    """What a scheduler sees of a machine of `n_nodes` alike nodes. It is to be read, and changes in time.

    * `free`: the nodes that nobody holds, `free.n` of them.
    * `waiting`: the jobs of the problem, with `sizes` and `estimates_s` as arrays in their order.
    * `releases`: when nodes of running jobs are believed to be free again.
    """

    __slots__ = ("free", "n_nodes", "releases", "waiting")

    def __init__(self, n_nodes: int) -> None:
        self.n_nodes = n_nodes
        self.free = FreeSet(n_nodes)
        self.waiting = WaitingJobs()
        self.releases = Releases()


class Placing:
    """One pass in which jobs are started on the free nodes of the lowest numbers, and all others wait.

    For schedulers of your own: ask `n_free`, say `start(i)` for job i of the problem, return `schedule(why)`.
    """

    def __init__(self, problem: SchedulingProblem) -> None:
        self._problem = problem
        self._nodes = problem.free_nodes
        self._placements: list[Placement] = []
        self._taken = 0
        self._in_order = self._nodes.free.in_order()

    @property
    def n_free(self) -> int:
        """How many nodes are free beside those that were given away in this pass."""
        return self._nodes.free.n - self._taken

    def start(self, i: int) -> None:
        """Job i starts now. Raises ValueError where it needs more nodes than are free."""
        job = self._problem.jobs[i]
        if job.n_tasks > self.n_free:
            raise ValueError(f"job {job.id} asks for {job.n_tasks} nodes, and {self.n_free} are free")
        self.start_with(i, job.n_tasks, self._problem.now_s + self._nodes.waiting.estimate_s(job.id))

    def start_with(self, i: int, n_nodes: int, completion_s: float) -> None:
        """As `start`, for who has looked at the job already."""
        self._placements.append(Placement(i, self._in_order.next(n_nodes), completion_s))
        self._taken += n_nodes

    def schedule(self, why_wait: str, in_detail: Callable[[int], str] | None = None) -> Schedule:
        """All jobs that were not started wait, for one reason; more may be told of job i."""
        placements = tuple(self._placements)
        return Schedule.placing(placements, AllOthers(self._problem.n_jobs, placements, why_wait, in_detail))
