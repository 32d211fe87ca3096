"""Placing jobs one after another: the bookkeeping that one-pass mapping algorithms share."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from scheduler.mapping.problem import MappingProblem
from scheduler.model import Assignment, Assignments, Schedule
from scheduler.rules import Reasons

NOWHERE_TO_RUN = "no available resource can run it"
ON_CLUSTERS_ONLY = "no available machine can run it, and it was not mapped to a cluster"
UNSUITABLE = "the resource chosen for it cannot run it now, though another one could"


class MappingPlacer:
    """Ready times that move as jobs are placed, and the resulting schedule.

    `machine_s` (m,) is the current ready time of each machine: read it, and change it only by `place`.
    Job i on resource j starts when every machine of j is ready and pushes all of them to its completion.
    Pass each job to `place` or `leave`: a job that could run and was passed to neither is missing from the
    schedule, which breaks the rule that no job is forgotten.
    """

    def __init__(self, problem: MappingProblem) -> None:
        self.machine_s: NDArray[np.float64] = problem.ready_times.machine_s.copy()
        self._problem = problem
        self._placed: dict[int, Assignment] = {}
        self._unsuitable: set[int] = set()
        self._left: dict[int, str] = {}

    def place(self, i: int, j: int) -> None:
        """Put job i on resource j after all jobs placed there before.

        The job is left waiting if j is not available or cannot run it.
        """
        machines = list(self._problem.ready_times.machines_of(j))
        start_s = float(self.machine_s[machines].max()) if machines else np.inf
        completion_s = start_s + self._problem.etc[i, j]
        if completion_s < np.inf:
            self.machine_s[machines] = completion_s
            self._placed[i] = Assignment(i, j, start_s, completion_s)
        else:
            self._unsuitable.add(i)

    def leave(self, i: int, reason: str) -> None:
        """Leave job i waiting."""
        self._left[i] = reason

    def schedule(self) -> Schedule:
        """The jobs placed; others wait, each with its reason."""
        made = mapped(self._problem, Assignments.of(self._placed.values()))
        reasons = dict(made.wait_reasons)
        for i in self._unsuitable - self._placed.keys():
            reasons.setdefault(i, UNSUITABLE)
        return made._replace(
            wait_reasons=Reasons(reasons | self._left, partial(_in_detail, self._problem, self._left))
        )


def mapped(problem: MappingProblem, assignments: Assignments) -> Schedule:
    """A schedule of `assignments` in which the jobs that no available machine can run wait.

    Other jobs must be assigned: one that is not is missing from the schedule, which breaks the rule that no
    job is forgotten.
    """
    if len(assignments) == problem.n_jobs:
        return Schedule(assignments)
    waiting = np.ones(problem.n_jobs, dtype=bool)
    waiting[assignments.jobs] = False
    jobs = np.flatnonzero(waiting)
    _, first, class_of = np.unique(problem.etc.job_class_of[jobs], return_index=True, return_inverse=True)
    reason_of = [_reason(problem, int(jobs[k])) for k in first]
    pairs = zip(jobs.tolist(), class_of.tolist(), strict=True)
    reasons = {i: reason for i, c in pairs if (reason := reason_of[c]) is not None}
    return Schedule(assignments, Reasons(reasons, partial(_in_detail, problem, {})))


def _reason(problem: MappingProblem, i: int) -> str | None:
    """Why job i cannot run on any machine; None if it can."""
    able = _able(problem, i)
    if able[: problem.ready_times.n_machines].any():
        return None
    return ON_CLUSTERS_ONLY if able.any() else NOWHERE_TO_RUN


def _able(problem: MappingProblem, i: int) -> NDArray[np.bool_]:
    """(m + clusters,) whether each resource is available and can run job i."""
    ready = problem.ready_times
    available = np.isfinite(np.concatenate([ready.machine_s, ready.cluster_s]))
    able: NDArray[np.bool_] = available & np.isfinite(problem.etc.row(i))
    return able


def _in_detail(problem: MappingProblem, left: dict[int, str], i: int) -> str:
    if i in left:
        return left[i]
    could = np.flatnonzero(np.isfinite(problem.etc.row(i)))
    if not len(could):
        return "there is no resource on which its class is known to run"
    n_able = int(_able(problem, i).sum())
    n_machines = int((could < problem.ready_times.n_machines).sum())
    named = " and ".join([*_counted(n_machines, "machine"), *_counted(len(could) - n_machines, "cluster")])
    return f"{_reason(problem, i) or UNSUITABLE}: its class runs on {named}, of which {n_able} are available"


def _counted(n: int, noun: str) -> list[str]:
    return [f"{n} {noun if n == 1 else noun + 's'}"] if n else []
