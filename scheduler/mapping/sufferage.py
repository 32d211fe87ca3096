"""Sufferage, one job per step."""

from __future__ import annotations

import numpy as np

from scheduler.core.arrays import Ints
from scheduler.mapping.placer import mapped
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Assignment, Assignments, Schedule


class Sufferage:
    """Sufferage: the job that loses most without its best machine first.

    A job's sufferage is its second-best completion less its best; each step commits one job, the one that
    suffers most, to its best machine. A job that only one machine can run suffers infinitely. Ties go to the
    lowest job index, then the lowest machine index. O(n^2 m) at worst.
    Source: Maheswaran et al. 1999, in the variant that commits one job per step.
    """

    def schedule(self, problem: MappingProblem) -> Schedule:
        etc_s = problem.machine_etc_s
        n, m = etc_s.shape
        if n == 0 or m == 0:
            return mapped(problem, Assignments.of([]))
        ready_s = problem.ready_times.machine_s.copy()
        best, second = np.full(n, -1), np.full(n, -1)
        best_s, sufferage_s = np.empty(n), np.empty(n)

        def evaluate(jobs: Ints) -> None:
            completion_s = ready_s + etc_s[jobs]
            rows = np.arange(len(jobs))
            best[jobs] = completion_s.argmin(axis=1)
            best_s[jobs] = completion_s[rows, best[jobs]]
            completion_s[rows, best[jobs]] = np.inf
            second[jobs] = completion_s.argmin(axis=1)
            second_s = completion_s[rows, second[jobs]]
            possible = np.isfinite(best_s[jobs])
            sufferage_s[jobs[possible]] = second_s[possible] - best_s[jobs[possible]]
            sufferage_s[jobs[~possible]] = -np.inf

        evaluate(np.arange(n))
        steps: list[Assignment] = []
        while np.isfinite(best_s[i := int(sufferage_s.argmax())]):
            j = int(best[i])
            steps.append(Assignment(i, j, float(ready_s[j]), float(best_s[i])))
            ready_s[j] = best_s[i]
            best[i] = second[i] = -1
            best_s[i], sufferage_s[i] = np.inf, -np.inf
            # Ready times only grow: a job changes only with its best or second-best machine.
            evaluate(np.flatnonzero((best == j) | (second == j)))
        return mapped(problem, Assignments.of(steps))
