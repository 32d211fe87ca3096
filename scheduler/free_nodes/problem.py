"""The problem of rigid jobs: which of them start now, and on which free nodes?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.messages import counted
from scheduler.model import Job, JobId, RunId, Start
from scheduler.node_set import NodeSet
from scheduler.problem import Running, SchedulingProblem, first_violation, too_few_or_many
from scheduler.rules import NODES_FREE, Kind, Violation

if TYPE_CHECKING:
    from scheduler.core.free_intervals import InOrder
    from scheduler.free_nodes.identical_nodes import FreeNodes


class FreeNodesProblem(SchedulingProblem):
    """Which of the rigid jobs start now, and on which of `free_nodes`? The answer is a `NodeSchedule`.

    See `SchedulingProblem` for `now_s`, `jobs`, `n_jobs`, `running` and `n_places`.
    """

    kind = Kind.FREE_NODES

    def __init__(
        self, now_s: float, free_nodes: FreeNodes, running: Mapping[RunId, Running] | None = None
    ) -> None:
        super().__init__(now_s, free_nodes.waiting, running, free_nodes.n_nodes)
        self.free_nodes = free_nodes

    def arrays(self) -> Mapping[str, Any]:
        nodes = self.free_nodes
        return {
            "free": np.array(nodes.free.intervals),
            "waiting": nodes.waiting.table,
            "releases": np.array([nodes.releases.ends_s, nodes.releases.sizes]),
        }

    def in_line(self, i: int, starts: Sequence[Start], otherwise: str) -> str:
        """Why job i waits; identical nodes are without a policy."""
        return otherwise

    def room(self, selection: str = "first_fit") -> FreeRoom:
        """What is free, for a pass over the jobs. Of identical nodes, all selections take the first."""
        return FreeRoom(self)

    def violation(self, answer: object) -> Violation | None:
        free, used = self.free_nodes.free, list[tuple[NodeSet, JobId]]()

        def use(i: int, job: Job, start: Start, nodes: NodeSet) -> Violation | None:
            if nodes.n != job.n_tasks:
                return too_few_or_many(job, nodes, job.n_tasks)
            if not free.has(nodes):
                message = f"job {job.id} is started on nodes {nodes}, some of which are not free"
                return Violation(NODES_FREE, job.id, message)
            used.append((nodes, job.id))
            return None

        def overbooked() -> Violation | None:
            held = sorted((first, last, job) for nodes, job in used for first, last in nodes.intervals)
            for (_, last, before), (first, _, job) in pairwise(held):
                if first <= last:
                    message = f"jobs {before} and {job} are both started on node {first}"
                    return Violation(NODES_FREE, job, message)
            return None

        return first_violation(self, answer, use, overbooked)


class FreeRoom:
    """Identical nodes that are free, less those that jobs got in a pass: the lowest numbers first."""

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
        """A key of the request of each job: equal for equal requests."""
        return [*self._nodes.waiting.sizes]

    def limit(self, i: int) -> str | None:
        """Identical nodes are without a policy."""
        return None

    def sentence(self, i: int) -> str:
        """What job i requests, and what is free."""
        return f"it requests {counted(self._problem.jobs[i].n_tasks, 'node')}, {self.n_free} free"

    def take(self, start: Start) -> None:
        """Take the nodes of a job that starts."""
        self.n_free -= len(start.nodes)

    def start(self, i: int) -> Start:
        job = self._problem.jobs[i]
        if job.n_tasks > self.n_free:
            raise ValueError(f"job {job.id} needs {counted(job.n_tasks, 'node')}, and {self.n_free} are free")
        self.n_free -= job.n_tasks
        completion_s = self._problem.now_s + self._nodes.waiting.estimate_s(job.id)
        return Start(i, self._in_order.next(job.n_tasks), completion_s)
