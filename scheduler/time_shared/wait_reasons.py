"""Wait reasons of jobs after a pass over time-shared nodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scheduler.time_shared.kernels.node_selection import select_nodes
from scheduler.time_shared.kernels.tables import SLACK, Jobs, Nodes
from scheduler.time_shared.problem import TimeSharedProblem


class WhyJobsWait:
    """Reasons computed on request from the state after a pass, `jobs` and `nodes`, which must not change.

    `head` is the row of the first waiting job; `held_back` explains why another job with enough room waits.
    """

    def __init__(
        self,
        problem: TimeSharedProblem,
        jobs: Jobs,
        nodes: Nodes,
        node_selection: int,
        head: int,
        of_head: Callable[[], str],
        held_back: Callable[[], str],
    ) -> None:
        self._waiting = problem.shared_nodes.waiting
        self._jobs = jobs
        self._nodes = nodes
        self._node_selection = node_selection
        self._head = head
        self._of_head = of_head
        self._held_back = held_back

    def __call__(self, i: int) -> str:
        row = int(self._waiting[i])
        room, has_room = self._room_for(row)
        if row == self._head:
            return f"first of the queue: {room}{self._of_head()}"
        return f"{room}; but {self._held_back()}" if has_room else room

    def _room_for(self, row: int) -> tuple[str, bool]:
        """The room for a job within the social contract, as text, and whether it is enough."""
        jobs, nodes, tasks = self._jobs, self._nodes, int(self._jobs.tasks[row])
        limits = {
            "down": nodes.most_jobs == 0,
            "full": nodes.n_jobs >= nodes.most_jobs,
            "short of memory": nodes.memory_mb + jobs.memory_mb[row] > nodes.most_memory_mb + SLACK,
            "short of CPU": nodes.cpu + jobs.cpu[row] > nodes.most_cpu + SLACK,
        }
        left, short = np.ones(len(nodes.n_jobs), dtype=bool), []
        for what, exceeded in limits.items():
            if n := int((left & exceeded).sum()):
                short.append(f"{n} {what}")
            left &= ~exceeded
        told = f"it needs {tasks} {'node' if tasks == 1 else 'nodes'}, and the social contract has room on "
        told += f"{int(left.sum())}" + (f" ({', '.join(short)})" if short else "")
        if left.sum() < tasks:
            return told, False
        if select_nodes(jobs, nodes, self._node_selection, row, np.empty(len(left), dtype=np.int64)):
            return told, True
        return f"{told}, but too few of them are idle, and no job of its size runs on them", False
