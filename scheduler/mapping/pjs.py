"""The parallel job scheduler of Collins and George: SJS with cluster extensions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scheduler.core.arrays import Floats, Ints
from scheduler.mapping.core.profit import Clusters
from scheduler.mapping.greedy import Greedy
from scheduler.mapping.placer import mapped
from scheduler.mapping.problem import MappingProblem
from scheduler.mapping.table import ByClass, in_a_row
from scheduler.model import Assignment, Assignments, Schedule

ROUNDING = 1e-9
"""Relative bound on the rounding error of a sum of completions."""

MapToMachines = Callable[[Ints, Floats, float], Assignments]
"""Maps the jobs from `next_job` (C,) on to machines that are ready at `ready_s` (m,). If the sum of
completions exceeds the limit, any result will do."""


class Pjs:
    """PJS: SJS, with the most profitable jobs in parallel on whole clusters.

    1. SJS alone is the baseline.
    2. The profitability of (job, cluster) is the job's best sequential completion, min_j(ready + ETC), less
       its completion on the cluster, cluster ready + parallel time, given the parallel jobs committed so far.
    3. The pair of highest positive profitability is committed: sequential jobs go after it on its members.
    4. SJS schedules the other jobs around it. If the sum of expected job times improved strictly, repeat from
       2, else stop with the best schedule so far.

    By that sum it is never worse than SJS on one problem. A job that no single machine can run is infinitely
    profitable, and a schedule that runs more jobs is better than any that runs fewer. Ties go to the lowest
    job index, then the lowest cluster index. Costs as SJS, and for each trial one Min-min without
    sorting. Source: Collins and George 2001, section 3, steps 1 to 5.
    """

    def schedule(self, problem: MappingProblem) -> Schedule:
        by_class = ByClass.of(problem)
        return ClusterTrials(problem, by_class, Greedy(by_class).duplex).schedule()


class PjsTryNext:
    """PJS that tries the next most profitable pair after a failed trial.

    A pair that failed is tried again only after another one was committed. It commits what PJS does, and
    more, so by the sum of expected job times it is never worse. Ties as in PJS. At most (job classes) x
    (clusters) trials for each that is committed.
    """

    def schedule(self, problem: MappingProblem) -> Schedule:
        by_class = ByClass.of(problem)
        return ClusterTrials(problem, by_class, Greedy(by_class).duplex).schedule(try_next=True)


class ClusterTrials:
    """Steps 2 to 5 of PJS: trials of one more job on a cluster, with the others mapped around it.

    Jobs of a class are equal, so only the first remaining job of each class is examined.
    """

    def __init__(self, problem: MappingProblem, by_class: ByClass, map_to_machines: MapToMachines) -> None:
        self._problem = problem
        self._table = by_class.table
        self._cluster_s = by_class.cluster_s
        self._clusters = Clusters(self._table, self._cluster_s, *in_a_row(problem.ready_times.members))
        self._map_to_machines = map_to_machines
        self._next_job = by_class.all_jobs.copy()
        self._ready_s = by_class.ready_s
        self._committed: list[Assignment] = []
        self._clusters.find_best_alone(self._ready_s)
        self._best = map_to_machines(self._next_job, self._ready_s, np.inf)

    def schedule(self, try_next: bool = False) -> Schedule:
        """The best schedule, with each most profitable pair for as long as that improves it.

        With `try_next`, a pair that does not is passed over until another one is committed.
        """
        while pair := self._clusters.most_profitable(self._next_job, self._ready_s):
            if self._accept(pair):
                continue
            if not try_next:
                break
            self._clusters.passed_over[pair] = True
        return mapped(self._problem, self._best)

    def _accept(self, pair: tuple[int, int]) -> bool:
        """Commit `pair` if that runs more jobs, or as many in strictly less total time."""
        c, cluster = pair
        members = list(self._problem.ready_times.members[cluster])
        start_s = float(self._ready_s[members].max())
        completion_s = start_s + float(self._cluster_s[pair])
        job = int(self._table.jobs[self._next_job[c]])
        committed = [*self._committed, Assignment(job, len(self._ready_s) + cluster, start_s, completion_s)]
        next_job, ready_s = self._next_job.copy(), self._ready_s.copy()
        next_job[c] += 1
        ready_s[members] = completion_s
        parallel = Assignments.of(committed)
        limit_s = np.inf  # if the job can run nowhere else, the trial runs more jobs than before
        if self._clusters.alone_s[c] < np.inf:
            best_s = float(self._best.completion_s.sum())
            limit_s = best_s * (1.0 + ROUNDING) - float(parallel.completion_s.sum())
        trial = Assignments.join([parallel, self._map_to_machines(next_job, ready_s, limit_s)])
        if not is_better(trial, self._best):
            return False
        self._best, self._committed, self._next_job, self._ready_s = trial, committed, next_job, ready_s
        self._clusters.passed_over[:] = False
        self._clusters.find_best_alone(self._ready_s)
        return True


def is_better(trial: Assignments, best: Assignments) -> bool:
    """More jobs run, or as many in strictly less total time."""
    if len(trial) != len(best):
        return len(trial) > len(best)
    return bool(trial.completion_s.sum() < best.completion_s.sum())
