"""Placing jobs one after another: the bookkeeping that one-pass mapping algorithms share."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from scheduler.model import Assignment, Assignments, Schedule
from scheduler.problem import SchedulingProblem
from scheduler.wait_reasons import Reasons

NOWHERE_TO_RUN = "no available resource can run it"


class Placement:
    """Ready times that move as jobs are placed, and the schedule that results.

    `machine_s` (m,) is the current ready time of each machine: read it, and change it only by `place`.
    Job i on resource j starts when every machine of j is ready and pushes all of them to its completion.
    """

    def __init__(self, problem: SchedulingProblem) -> None:
        self.machine_s: NDArray[np.float64] = problem.ready_times.machine_s.copy()
        self._problem = problem
        self._placed: dict[int, Assignment] = {}

    def place(self, i: int, j: int) -> None:
        """Put job i on resource j after all that was placed there before.

        Where it would never complete there, since j is not available or cannot run it, it is left waiting.
        """
        machines = list(self._problem.ready_times.machines_of(j))
        start_s = float(self.machine_s[machines].max()) if machines else np.inf
        completion_s = start_s + self._problem.etc[i, j]
        if completion_s < np.inf:
            self.machine_s[machines] = completion_s
            self._placed[i] = Assignment(i, j, start_s, completion_s)

    def schedule(self) -> Schedule:
        """All that was placed; the jobs that were not are left waiting."""
        return mapped(self._problem, Assignments.of(self._placed.values()))


def mapped(problem: SchedulingProblem, assignments: Assignments) -> Schedule:
    """A schedule of `assignments` in which every other job of the problem is left waiting for a resource."""
    waiting = np.ones(problem.n_jobs, dtype=bool)
    waiting[assignments.jobs] = False
    left = dict.fromkeys(np.flatnonzero(waiting).tolist(), NOWHERE_TO_RUN)
    return Schedule(assignments, Reasons(left, partial(_why_nowhere, problem)))


def _why_nowhere(problem: SchedulingProblem, i: int) -> str:
    could = np.flatnonzero(np.isfinite(problem.etc.row(i)))
    n_machines = int((could < len(problem.ready_times.machine_s)).sum())
    n_clusters = len(could) - n_machines
    if not len(could):
        return "there is no resource on which its class is known to run"
    machines = f"{n_machines} {'machine' if n_machines == 1 else 'machines'}"
    clusters = f"{n_clusters} {'cluster' if n_clusters == 1 else 'clusters'}"
    named = " and ".join([machines] * bool(n_machines) + [clusters] * bool(n_clusters))
    return f"{NOWHERE_TO_RUN}: its class runs on {named}, none of which is up"
