"""Steps 2 to 5 of PJS: trials of one more job on a cluster, with the others mapped around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from scheduler.compiled import Floats, Ints
from scheduler.mapping.by_class import ByClass
from scheduler.mapping.kernels.profit import best_alone, most_profitable
from scheduler.mapping.kernels.table import NOBODY
from scheduler.model import Assignment, Assignments

Pair = tuple[int, int]
"""A job class and a cluster."""

ROUNDING = 1e-9
"""Relative bound on the rounding error of a sum of completions."""

MapToMachines = Callable[[Ints, Floats, float], Assignments]
"""Maps the jobs from `next_job` (C,) on to machines that are ready at `ready_s` (m,). If the sum of
completions exceeds the limit, any result will do."""


class ClusterTrials:
    """The committed parallel jobs, the best schedule so far, and the gain of each further pair.

    Jobs of a class are equal, so only the first remaining job of each class is examined.
    """

    def __init__(
        self, by_class: ByClass, members: Sequence[tuple[int, ...]], map_to_machines: MapToMachines
    ) -> None:
        self._table = by_class.table
        self._cluster_s = by_class.cluster_s
        self._members = np.array([j for machines in members for j in machines], dtype=np.int64)
        self._first_member = np.cumsum([0, *map(len, members)], dtype=np.int64)
        self._map_to_machines = map_to_machines
        self._next_job = by_class.all_jobs.copy()
        self._ready_s = by_class.ready_s
        self._committed: list[Assignment] = []
        self._passed_over = np.zeros(self._cluster_s.shape, dtype=bool)
        self._alone_s = self._best_alone_s()
        self.best = map_to_machines(self._next_job, self._ready_s, np.inf)

    def most_profitable(self) -> Pair | None:
        """The pair of highest positive profitability among those not passed over."""
        best = np.empty(2, dtype=np.int64)
        most_profitable(
            self._table,
            self._cluster_s,
            self._next_job,
            self._alone_s,
            self._ready_s,
            self._members,
            self._first_member,
            self._passed_over,
            best,
        )
        return None if best[0] == NOBODY else (int(best[0]), int(best[1]))

    def accepts(self, pair: Pair) -> bool:
        """Commit `pair` if that runs more jobs, or as many in strictly less total time."""
        c, cluster = pair
        members = self._members[self._first_member[cluster] : self._first_member[cluster + 1]]
        start_s = float(self._ready_s[members].max())
        completion_s = start_s + float(self._cluster_s[pair])
        job = int(self._table.jobs[self._next_job[c]])
        committed = [
            *self._committed,
            Assignment(job, len(self._ready_s) + cluster, start_s, completion_s),
        ]
        next_job, ready_s = self._next_job.copy(), self._ready_s.copy()
        next_job[c] += 1
        ready_s[members] = completion_s
        parallel = Assignments.of(committed)
        limit_s = np.inf  # if the job can run nowhere else, the trial runs more jobs than before
        if self._alone_s[c] < np.inf:
            best_s = float(self.best.completion_s.sum())
            limit_s = best_s * (1.0 + ROUNDING) - float(parallel.completion_s.sum())
        trial = Assignments.join([parallel, self._map_to_machines(next_job, ready_s, limit_s)])
        if not is_better(trial, self.best):
            return False
        self.best, self._committed, self._next_job, self._ready_s = trial, committed, next_job, ready_s
        self._passed_over[:] = False
        self._alone_s = self._best_alone_s()
        return True

    def pass_over(self, pair: Pair) -> None:
        """Do not offer `pair` again before another one is committed."""
        self._passed_over[pair] = True

    def _best_alone_s(self) -> Floats:
        """(C,) best completion on single machines."""
        n_job_classes, n_machine_classes = self._table.by_job_class_s.shape
        alone_s = np.empty(n_job_classes)
        best_alone(self._table, self._ready_s, np.empty(n_machine_classes), alone_s)
        return alone_s


def is_better(trial: Assignments, best: Assignments) -> bool:
    """More jobs run, or as many in strictly less total time."""
    if len(trial) != len(best):
        return len(trial) > len(best)
    return bool(trial.completion_s.sum() < best.completion_s.sum())
