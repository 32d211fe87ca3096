"""LoRaS: job ordering, job selection and node selection composed into one scheduler."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
from numpy.typing import NDArray

from scheduler.compiled import Ints
from scheduler.model import NodeSchedule, Start
from scheduler.time_shared.kernels.estimates import expect
from scheduler.time_shared.kernels.job_selection import Room, reservation_s, room_for_pass, start_jobs
from scheduler.time_shared.kernels.tables import Jobs, Nodes, Policy, Queues
from scheduler.time_shared.policies import Method, NodeSelection, Ordering, Selection
from scheduler.time_shared.problem import SharedNodes, TimeSharedProblem
from scheduler.time_shared.wait_reasons import WhyJobsWait
from scheduler.wait_reasons import AllOthers

WAITS = "no set of nodes has room for it yet, or a job before it waits"


class Loras:
    """LoRaS, the scheduler of CISNE: which jobs start now, on which time-shared nodes.

    `estimate` is the method by which EASY estimates remaining times. With `most_jobs`, a node gets at most
    that many jobs, even if the social contract allows more. A pass costs O(N) for each job examined: the
    first of the queue (Just First) or all waiting jobs; EASY also examines all running jobs. Ties: earlier
    arrival, lower job id, lower node. Source: CISNE-P, section 2.1.1; Hanzich et al. 2006, section 4.
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
        """The policies as codes for the kernels."""
        return Policy(self.selection.code, self.node_selection.code, self.estimate.code)

    def limit(self, nodes: Nodes) -> None:
        """Lower the limits of `nodes` to `most_jobs`."""
        if self.most_jobs is not None:
            np.minimum(nodes.most_jobs, self.most_jobs, out=nodes.most_jobs)

    def schedule(self, problem: TimeSharedProblem) -> NodeSchedule:
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
        starts = tuple(
            Start(
                position[row],
                tuple(jobs.nodes[row, : jobs.tasks[row]].tolist()),
                problem.now_s + float(takes_s),
            )
            for row, takes_s in zip(rows.tolist(), expected_s, strict=True)
        )
        why = self._why(problem, jobs, nodes, queues, room)
        return NodeSchedule(starts, AllOthers(problem.n_jobs, starts, WAITS, why))

    def _why(
        self, problem: TimeSharedProblem, jobs: Jobs, nodes: Nodes, queues: Queues, room: Room
    ) -> Callable[[int], str]:
        """A function for the wait reason of job i after a pass."""
        begin, end = queues.window
        if begin == end:
            return lambda i: WAITS
        head = int(queues.waiting[begin])

        def of_head() -> str:
            return f"; {reserved()}" if self.selection is Selection.EASY else ""

        def reserved() -> str:
            in_s = reservation_s(jobs, nodes, queues, room, self.policy, head)
            if in_s == inf:
                return "no running job's end makes room for it"
            return f"its estimated start is {problem.now_s + in_s:.10g} s"

        def held_back() -> str:
            if self.selection is Selection.EASY:
                return f"it would delay job {jobs.id[head]}, the first of the queue; {reserved()}"
            return f"job {jobs.id[head]} comes first"

        return WhyJobsWait(problem, jobs, nodes, self.policy.node_selection, head, of_head, held_back)


def in_order(shared: SharedNodes, ordering: Ordering) -> Ints:
    """Positions of the waiting jobs, which are in order of arrival, in the order of the policy."""
    if ordering is Ordering.FCFS:
        return np.arange(len(shared.waiting))
    keys: NDArray[np.float64] | Ints = (shared.jobs.exe_s if ordering is Ordering.SJF else shared.jobs.tasks)[
        shared.waiting
    ]
    return np.argsort(keys, kind="stable")
