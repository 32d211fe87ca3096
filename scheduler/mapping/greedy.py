"""Min-min and Max-min: the greedy pair that SJS is made of."""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from scheduler.mapping.placement import mapped
from scheduler.model import Assignments, Schedule
from scheduler.problem import SchedulingProblem


class Pick(Enum):
    """Which job goes next: the one whose best completion is the smallest, or the largest."""

    SMALLEST = 1
    LARGEST = -1


class MinMin:
    """Min-min: of all jobs' best completions the smallest goes next, to its best machine, and so on.

    Ties go to the lowest job index, then the lowest machine index. Source: Ibarra and Kim 1977 (algorithm D);
    Collins and George 2001, section 3. Costs as `greedy`.
    """

    def schedule(self, problem: SchedulingProblem) -> Schedule:
        ready_s = problem.ready_times.machine_s
        return mapped(problem, greedy(problem.machine_etc_s, ready_s, Pick.SMALLEST))


class MaxMin:
    """Max-min: of all jobs' best completions the largest goes next, to its best machine, and so on.

    The paper's name for it is "min-max". Ties go to the lowest job index, then the lowest machine index.
    Source: Ibarra and Kim 1977 (algorithm E); Collins and George 2001, section 3. Costs as `greedy`.
    """

    def schedule(self, problem: SchedulingProblem) -> Schedule:
        ready_s = problem.ready_times.machine_s
        return mapped(problem, greedy(problem.machine_etc_s, ready_s, Pick.LARGEST))


def greedy(etc_s: NDArray[np.float64], ready_s: NDArray[np.float64], pick: Pick) -> Assignments:
    """Assign job after job to its best machine, the job chosen by `pick`; `etc_s` (n, m), `ready_s` (m,).

    Jobs that cannot run anywhere are left out. A machine's ready time only grows, so a job's best machine
    can change only when that very machine was pushed: each step looks at those jobs alone. O(n^2 m) at
    worst (all jobs want one machine), O(n m + n^2) where the jobs spread.
    """
    n, m = etc_s.shape
    if n == 0 or m == 0:
        return Assignments.of([])
    ready_s = ready_s.copy()
    completion_s = ready_s + etc_s
    best = completion_s.argmin(axis=1)
    best_s = completion_s[np.arange(n), best]
    done_key = np.inf
    key = np.where(np.isfinite(best_s), pick.value * best_s, done_key)
    count = int(np.isfinite(key).sum())
    jobs = np.empty(count, dtype=np.int64)
    machines = np.empty(count, dtype=np.int64)
    starts_s = np.empty(count)
    for step in range(count):
        i = int(key.argmin())
        j = int(best[i])
        jobs[step], machines[step], starts_s[step] = i, j, ready_s[j]
        ready_s[j] = best_s[i]
        key[i] = done_key
        best[i] = m  # no machine: an assigned job is never looked at again
        stale = np.flatnonzero(best == j)
        if len(stale):
            completion_s = ready_s + etc_s[stale]
            best[stale] = completion_s.argmin(axis=1)
            best_s[stale] = completion_s[np.arange(len(stale)), best[stale]]
            key[stale] = np.where(np.isfinite(best_s[stale]), pick.value * best_s[stale], done_key)
    return Assignments(jobs, machines, starts_s, best_s[jobs])
