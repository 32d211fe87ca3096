"""What is free on nodes, less what jobs got in this pass."""

from __future__ import annotations

from abc import ABC, abstractmethod

from scheduler import counted
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.model import Start


class Room(ABC):
    """What is free, less what jobs got in this pass."""

    @abstractmethod
    def fits(self, i: int) -> bool:
        """Whether job i of the problem fits now."""

    @abstractmethod
    def start(self, i: int) -> Start:
        """Give job i its nodes. Raises ValueError if it does not fit."""


class FreeRoom(Room):
    """Identical nodes, each for one job: the free ones with the lowest numbers."""

    def __init__(self, problem: FreeNodesProblem) -> None:
        self._problem = problem
        self._nodes = problem.free_nodes
        self._in_order = self._nodes.free.in_order()
        self.n_free = self._nodes.free.n

    def fits(self, i: int) -> bool:
        return self._problem.jobs[i].n_tasks <= self.n_free

    def start(self, i: int) -> Start:
        job = self._problem.jobs[i]
        if job.n_tasks > self.n_free:
            raise ValueError(f"job {job.id} needs {counted(job.n_tasks, 'node')}, and {self.n_free} are free")
        self.n_free -= job.n_tasks
        completion_s = self._problem.now_s + self._nodes.waiting.estimate_s(job.id)
        return Start(i, self._in_order.next(job.n_tasks), completion_s)
