"""LoRaS: three choices composed into one scheduler."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.compiled import Ints
from scheduler.loras.kernels.estimates import expect
from scheduler.loras.kernels.job_selection import room_for_pass, start_jobs
from scheduler.loras.kernels.tables import Nodes, Policy
from scheduler.loras.policies import Method, NodeSelection, Ordering, Selection
from scheduler.loras.system import SharedNodes
from scheduler.model import Placement, Schedule
from scheduler.problem import SchedulingProblem

WAITS = "no set of nodes has room for it yet, or a job before it waits"


class Loras:
    """LoRaS, the space-sharing scheduler of CISNE: which jobs start now, and on which shared nodes.

    `estimate` is how EASY estimates the time that running jobs still take. With `most_jobs`, a node gets no
    more jobs than that, where the social contract would allow them. A pass costs O(N) for each job
    that is looked at: the first of the queue (Just First), or all that wait; EASY also looks at all that run.
    And O(1) for each job that waits, to say so. Ties: earlier arrival, lower job id, lower node. Source:
    CISNE-P, section 2.1.1; Hanzich et al. 2006, section 4.
    """

    def __init__(
        self,
        ordering: str = "fcfs",
        selection: str = "just_first",
        node_selection: str = "normal",
        estimate: str = "cpu",
        most_jobs: int | None = None,
    ) -> None:
        if most_jobs is not None and most_jobs < 1:
            raise ValueError(f"a node may have at least one job, not {most_jobs}")
        self.ordering = Ordering(ordering)
        self.selection = Selection(selection)
        self.node_selection = NodeSelection(node_selection)
        self.estimate = Method(estimate)
        self.most_jobs = most_jobs

    @property
    def policy(self) -> Policy:
        """For the kernels."""
        return Policy(self.selection.code, self.node_selection.code, self.estimate.code)

    def limit(self, nodes: Nodes) -> None:
        """Bring `nodes` down to the number of jobs that this scheduler puts on one."""
        if self.most_jobs is not None:
            np.minimum(nodes.most_jobs, self.most_jobs, out=nodes.most_jobs)

    def schedule(self, problem: SchedulingProblem) -> Schedule:
        shared = problem.shared_nodes
        if self.selection is Selection.EASY:
            shared.measure()
        jobs = shared.jobs._replace(nodes=shared.jobs.nodes.copy())
        nodes = Nodes._make(column.copy() for column in shared.nodes)
        self.limit(nodes)
        queues = shared.queues()
        order = in_order(shared, self.ordering)
        queues.waiting[:] = shared.waiting[order]
        room = room_for_pass(jobs, nodes)
        n_started = start_jobs(jobs, nodes, queues, room, self.policy)
        rows = room.started[:n_started]
        expected_s = np.empty(n_started)
        expect(jobs, nodes, rows, self.estimate.code, expected_s)
        position = {int(row): i for i, row in enumerate(shared.waiting)} if n_started else {}
        placements = [
            Placement(
                position[row],
                tuple(jobs.nodes[row, : jobs.tasks[row]].tolist()),
                problem.now_s + float(takes_s),
            )
            for row, takes_s in zip(rows.tolist(), expected_s, strict=True)
        ]
        left_waiting = dict.fromkeys(range(problem.n_jobs), WAITS)
        for placement in placements:
            del left_waiting[placement.job]
        return Schedule.placing(placements, left_waiting)


def in_order(shared: SharedNodes, ordering: Ordering) -> Ints:
    """Positions of the waiting jobs, which stand in order of arrival, as they are to be looked at."""
    if ordering is Ordering.FCFS:
        return np.arange(len(shared.waiting))
    keys: NDArray[np.float64] | Ints = (shared.jobs.exe_s if ordering is Ordering.SJF else shared.jobs.tasks)[
        shared.waiting
    ]
    return np.argsort(keys, kind="stable")
