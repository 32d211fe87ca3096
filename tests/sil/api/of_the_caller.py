"""Schedulers as a Python program defines them. Each of their processes imports this module, hence little."""

from __future__ import annotations

from typing import Any

from scheduler.mapping.immediate import Mct
from scheduler.mapping.problem import MappingProblem
from scheduler.model import NodeSchedule, Schedule, Start
from scheduler.rules import Kind


class SmallestFirst:
    """Starts the smallest jobs, up to a number of processors."""

    kind = Kind.FREE_NODES

    def __init__(self, cap: int = 64) -> None:
        self.cap = cap
        self.calls = 0

    def schedule(self, problem: Any) -> NodeSchedule:
        self.calls += 1
        nodes, starts, waiting = problem.free_nodes.free.in_order(), [], {}
        free = problem.free_nodes.free.n
        for i in sorted(range(problem.n_jobs), key=lambda i: (problem.jobs[i].n_tasks, i)):
            job = problem.jobs[i]
            if job.n_tasks > min(free, self.cap):
                waiting[i] = "it is too large"
                continue
            free -= job.n_tasks
            starts.append(Start(i, nodes.next(job.n_tasks), problem.now_s + 1.0))
        return NodeSchedule(tuple(starts), waiting)


class Raises(SmallestFirst):
    def schedule(self, problem: Any) -> NodeSchedule:
        if problem.now_s > 0:
            raise KeyError("no such queue")
        return super().schedule(problem)


class Mine(Mct):
    """As MCT, in a class of the caller."""

    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__()
        self.fails_at = fails_at

    def schedule(self, problem: MappingProblem) -> Schedule:
        if self.fails_at is not None and problem.now_s >= self.fails_at:
            raise KeyError("no such machine")
        return super().schedule(problem)
