"""Starting jobs one after another: the bookkeeping that one-pass algorithms for free nodes share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.messages import counted
from scheduler.model import NodeSchedule, Start
from scheduler.wait_reasons import AllOthers

if TYPE_CHECKING:
    from scheduler.core.free_intervals import InOrder
    from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem, ConsumableRoom


class FreeRoom:
    """Identical nodes, each for one job, less those that jobs got in a pass: the lowest free numbers."""

    FIRST = ""

    def __init__(self, problem: FreeNodesProblem) -> None:
        self._problem, self._nodes = problem, problem.free_nodes
        self.n_free = self._nodes.free.n

    @cached_property
    def _in_order(self) -> InOrder:
        return self._nodes.free.in_order()

    def fits(self, i: int) -> bool:
        return self._problem.jobs[i].n_tasks <= self.n_free

    def requests(self) -> list[float]:
        """Equal for jobs that request the same."""
        return [*self._nodes.waiting.sizes]

    def sentence(self, i: int) -> str:
        """What job i requests, and what is free."""
        return f"it requests {counted(self._problem.jobs[i].n_tasks, 'node')}, {self.n_free} free"

    def take(self, start: Start) -> None:
        """A job of the problem has started."""
        self.n_free -= len(start.nodes)

    def start(self, i: int) -> Start:
        job = self._problem.jobs[i]
        if job.n_tasks > self.n_free:
            raise ValueError(f"job {job.id} needs {counted(job.n_tasks, 'node')}, and {self.n_free} are free")
        self.n_free -= job.n_tasks
        completion_s = self._problem.now_s + self._nodes.waiting.estimate_s(job.id)
        return Start(i, self._in_order.next(job.n_tasks), completion_s)


def room_of(
    problem: FreeNodesProblem | ConsumableNodesProblem, selection: str = "first_fit"
) -> FreeRoom | ConsumableRoom:
    """What is free in a problem. `selection` chooses among nodes of which jobs use parts."""
    if isinstance(problem, FreeNodesProblem):
        return FreeRoom(problem)
    from scheduler.free_nodes.consumable_problem import ConsumableRoom  # compiled

    return ConsumableRoom(problem, selection)


class Placer:
    """One pass that starts jobs on free nodes; all other jobs wait.

    Ask `fits(i)` and call `start(i)` for job i of the problem, and return `schedule(reason)`. Of identical
    nodes a job gets those with the lowest numbers, of consumable nodes those that the node selection prefers
    (a name like `best_fit`).
    """

    def __init__(
        self, problem: FreeNodesProblem | ConsumableNodesProblem, selection: str = "first_fit"
    ) -> None:
        self._n_jobs = problem.n_jobs
        self._starts: list[Start] = []
        self._room = room_of(problem, selection)

    @property
    def n_free(self) -> int:
        """Identical nodes that are free, less those assigned in this pass. Raises AttributeError for
        consumable nodes, of which jobs use parts: see `fits`."""
        if not isinstance(self._room, FreeRoom):
            raise AttributeError("nodes of which jobs use parts have no n_free; ask fits(i)")
        return self._room.n_free

    def fits(self, i: int) -> bool:
        """Whether job i fits now, beside those started in this pass."""
        return self._room.fits(i)

    def start(self, i: int) -> None:
        """Start job i now. Raises ValueError if it does not fit."""
        self._starts.append(self._room.start(i))

    def schedule(self, reason: str, in_detail: Callable[[int], str] | None = None) -> NodeSchedule:
        """The jobs started; the others wait for `reason`, or for job i in detail `in_detail(i)`."""
        starts = tuple(self._starts)
        return NodeSchedule(starts, AllOthers(self._n_jobs, starts, reason, in_detail))
