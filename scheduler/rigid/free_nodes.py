"""The view of rigid jobs: free nodes, the jobs that wait for them, and what is believed of their release."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from scheduler.model import Placement, Schedule
from scheduler.node_set import FreeSet
from scheduler.problem import SchedulingProblem
from scheduler.rigid.releases import Releases
from scheduler.rigid.waiting import WaitingJobs


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
        nodes = self._nodes.free.lowest(n_nodes, self._taken)
        self._placements.append(Placement(i, nodes, completion_s))
        self._taken += n_nodes

    def schedule(self, why_wait: str | Callable[[int], str]) -> Schedule:
        """All jobs that were not started wait: for one reason, or what is said of job i once asked for."""
        placements = tuple(self._placements)
        return Schedule.placing(placements, AllOthers(self._problem.n_jobs, placements, why_wait))


class AllOthers(Mapping[int, str]):
    """Why jobs wait, where all that are not placed do; made without a look at them. The reason is the same
    for all, or worked out for each when somebody asks."""

    __slots__ = ("_n_jobs", "_placements", "_reason")

    def __init__(
        self, n_jobs: int, placements: Sequence[Placement], reason: str | Callable[[int], str]
    ) -> None:
        self._n_jobs = n_jobs
        self._placements = placements
        self._reason = reason

    def are_all_but(self, placements: Sequence[Placement], n_jobs: int) -> bool:
        """Whether these are, by the way they are made, all of so many jobs but those."""
        return self._placements is placements and self._n_jobs == n_jobs

    def __len__(self) -> int:
        return self._n_jobs - len(self._placements)

    def __iter__(self) -> Iterator[int]:
        placed = {placement.job for placement in self._placements}
        return (i for i in range(self._n_jobs) if i not in placed)

    def __getitem__(self, i: int) -> str:
        if i in self:
            return self._reason if isinstance(self._reason, str) else self._reason(i)
        raise KeyError(i)

    def __contains__(self, i: object) -> bool:
        if not isinstance(i, int) or not 0 <= i < self._n_jobs:
            return False
        return all(placement.job != i for placement in self._placements)
