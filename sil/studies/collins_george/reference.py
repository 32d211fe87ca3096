"""Reference implementations of SJS and PJS, with which tests and a study compare the compiled ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.mapping.pjs import is_better
from scheduler.mapping.placer import mapped
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Assignment, Assignments, Schedule

Floats = NDArray[np.float64]


class ReferenceSjs:
    """SJS as published, with the schedules of `sjs`: every step computes every completion. O(n^2 m)."""

    def schedule(self, problem: MappingProblem) -> Schedule:
        jobs = np.arange(problem.n_jobs)
        rows = _duplex(problem.machine_etc_s, problem.ready_times.machine_s, jobs)
        return mapped(problem, Assignments.of(rows))


class ReferencePjs:
    """PJS as published, with the schedules of `pjs`: every trial maps all sequential jobs by SJS."""

    def schedule(self, problem: MappingProblem) -> Schedule:
        etc_s, parallel_s = problem.machine_etc_s, problem.cluster_etc_s
        members = [list(machines) for machines in problem.ready_times.members]
        ready_s = problem.ready_times.machine_s.copy()
        jobs = np.arange(problem.n_jobs)
        committed: list[Assignment] = []
        best = Assignments.of(_duplex(etc_s, ready_s, jobs))
        while True:
            cluster_s = np.array([ready_s[machines].max() if machines else np.inf for machines in members])
            pair = _most_profitable(etc_s[jobs], parallel_s[jobs], ready_s, cluster_s)
            if pair is None:
                return mapped(problem, best)
            i, c = int(jobs[pair[0]]), pair[1]
            start_s = float(cluster_s[c])
            committed.append(Assignment(i, len(ready_s) + c, start_s, start_s + float(parallel_s[i, c])))
            ready_s[members[c]] = committed[-1].completion_s
            jobs = jobs[jobs != i]
            trial = Assignments.of([*committed, *_duplex(etc_s, ready_s, jobs)])
            if not is_better(trial, best):
                return mapped(problem, best)
            best = trial


def _duplex(etc_s: Floats, ready_s: Floats, jobs: NDArray[np.int64]) -> list[Assignment]:
    min_min, max_min = (greedy(etc_s, ready_s, jobs, sign) for sign in (1.0, -1.0))
    return max_min if _sum_s(max_min) < _sum_s(min_min) else min_min


def _sum_s(rows: list[Assignment]) -> float:
    return float(np.array([row.completion_s for row in rows]).sum())


def greedy(etc_s: Floats, ready_s: Floats, jobs: NDArray[np.int64], sign: float) -> list[Assignment]:
    """Min-min if `sign` is 1, Max-min if it is -1: jobs by best completion, least or largest first."""
    ready_s, left_s = ready_s.copy(), etc_s[jobs]
    rows: list[Assignment] = []
    while left_s.size:
        completion_s = ready_s + left_s
        best = completion_s.argmin(axis=1)
        best_s = completion_s[np.arange(len(best)), best]
        row = int(np.where(np.isfinite(best_s), sign * best_s, np.inf).argmin())
        if not np.isfinite(best_s[row]):
            break
        j = int(best[row])
        rows.append(Assignment(int(jobs[row]), j, float(ready_s[j]), float(best_s[row])))
        ready_s[j] = best_s[row]
        jobs, left_s = np.delete(jobs, row), np.delete(left_s, row, axis=0)
    return rows


def _most_profitable(
    etc_s: Floats, parallel_s: Floats, ready_s: Floats, cluster_s: Floats
) -> tuple[int, int] | None:
    """(row, cluster) of the highest positive profitability."""
    if not parallel_s.size:
        return None
    sequential_s = (ready_s + etc_s).min(axis=1, initial=np.inf)
    on_cluster_s = cluster_s + parallel_s
    gain_s = np.full_like(on_cluster_s, -np.inf)
    np.subtract(sequential_s[:, None], on_cluster_s, out=gain_s, where=np.isfinite(on_cluster_s))
    row, c = np.unravel_index(gain_s.argmax(), gain_s.shape)
    return (int(row), int(c)) if gain_s[row, c] > 0.0 else None
