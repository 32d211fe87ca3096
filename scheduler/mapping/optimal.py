"""The least sum of completion times that single machines can give."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csc_array

from scheduler.core.arrays import Floats, Ints
from scheduler.mapping.greedy import Greedy
from scheduler.mapping.pjs import ClusterTrials
from scheduler.mapping.placer import mapped
from scheduler.mapping.problem import MappingProblem
from scheduler.mapping.table import ByClass, EtcTable
from scheduler.model import Assignments, Schedule

SOLVED, TOO_FEW_PLACES = 0, 2
"""Status codes of HiGHS."""


class Optimal:
    """Optimal: the minimum total flow time on single machines.

    The job in the p-th place from the end of a machine adds ready + p ETC to the sum, so jobs are assigned to
    such places at least cost (Horn 1973; Bruno, Coffman and Sethi 1974). Jobs of a class
    are equal, and so are machines of a class that are ready together: that leaves a transportation problem of
    (job classes) x (groups of such machines) x (places) unknowns, which HiGHS solves. It is fast for few
    classes, and grows with the number of different ready times. Among several optimal mappings, HiGHS chooses
    one, deterministically.
    """

    def schedule(self, problem: MappingProblem) -> Schedule:
        by_class = ByClass.of(problem)
        best = OptimalMapping(by_class)(by_class.all_jobs, by_class.ready_s)
        return mapped(problem, best)


class PjsOptimal:
    """PJS with sequential jobs mapped by `optimal`, at the start and in every trial."""

    def schedule(self, problem: MappingProblem) -> Schedule:
        by_class = ByClass.of(problem)
        return ClusterTrials(problem, by_class, OptimalMapping(by_class)).schedule()


class Alike(NamedTuple):
    """Machines of one class that are ready at the same time."""

    machine_class: int
    ready_s: float
    machines: Ints


class OptimalMapping:
    """Optimal mappings of one problem's jobs to machines, for any ready times."""

    def __init__(self, by_class: ByClass) -> None:
        self._table = by_class.table
        self._greedy = Greedy(by_class)

    def __call__(self, next_job: Ints, ready_s: Floats, limit_s: float = np.inf) -> Assignments:
        """Map the jobs from `next_job` (C,) on to machines that are ready at `ready_s` (m,)."""
        greedy = self._greedy.min_min(next_job, ready_s)
        if not len(greedy):
            return greedy
        groups = _alike(self._table, ready_s)
        n_of = self._table.first_job[1:] - next_job
        n_on = np.bincount(greedy.resources, minlength=len(ready_s))
        places = np.array([n_on[group.machines].max() for group in groups]) + 1
        while True:
            n_there, used_up = _transport(self._table, groups, n_of, places)
            if not used_up.any():
                break
            places[used_up] *= 2
        return _in_order(self._table, groups, next_job, n_there)


def _alike(table: EtcTable, ready_s: Floats) -> list[Alike]:
    groups: list[Alike] = []
    for k in range(len(table.first_machine) - 1):
        machines = table.machines[table.first_machine[k] : table.first_machine[k + 1]]
        times_s = ready_s[machines]
        able_s = np.unique(times_s[times_s < np.inf])
        groups += [Alike(k, float(time_s), machines[times_s == time_s]) for time_s in able_s]
    return groups


def _transport(
    table: EtcTable, groups: list[Alike], n_of: Ints, places: Ints
) -> tuple[Ints, NDArray[np.bool_]]:
    """Jobs of each class on each group of machines, (C, groups), given the number of places per machine; and
    which groups have no place left.

    More places can help only there: in other groups, the remaining places cost less.
    """
    group_of = np.repeat(np.arange(len(groups)), places)
    place = np.concatenate([np.arange(1, n + 1) for n in places])
    machine_class = np.array([group.machine_class for group in groups])
    ready_s = np.array([group.ready_s for group in groups])
    room = np.array([len(group.machines) for group in groups])[group_of]
    time_s = table.by_job_class_s[:, machine_class[group_of]]
    wanted = np.where(np.isfinite(time_s).any(axis=1), n_of, 0)
    c, slot = np.nonzero(np.isfinite(time_s) & (wanted > 0)[:, None])
    solved: Any = linprog(
        (ready_s[group_of] + place * time_s)[c, slot],
        A_eq=_sums_over(c, len(wanted)),
        b_eq=wanted,
        A_ub=_sums_over(slot, len(room)),
        b_ub=room,
        method="highs-ds",
    )
    n_there = np.zeros((len(wanted), len(groups)), dtype=np.int64)
    if solved.status == TOO_FEW_PLACES:
        return n_there, np.ones(len(groups), dtype=bool)
    if solved.status != SOLVED:
        raise ArithmeticError(f"the transportation problem was not solved: {solved.message}")
    amount = np.rint(solved.x).astype(np.int64)
    np.add.at(n_there, (c, group_of[slot]), amount)
    return n_there, n_there.sum(axis=0) >= np.bincount(group_of, weights=room)


def _sums_over(rows: Ints, n_rows: int) -> Any:
    """The matrix that adds up unknown x in row `rows[x]`."""
    return csc_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(n_rows, len(rows)))


def _in_order(table: EtcTable, groups: list[Alike], next_job: Ints, n_there: Ints) -> Assignments:
    """The schedule with these numbers of jobs of each class on each group, shortest first."""
    next_job = next_job.copy()
    parts = []
    for g, group in enumerate(groups):
        jobs = np.concatenate(
            [table.jobs[at : at + n] for at, n in zip(next_job, n_there[:, g], strict=True)]
        )
        next_job += n_there[:, g]
        times_s = np.repeat(table.by_job_class_s[:, group.machine_class], n_there[:, g])
        longest_first = np.lexsort((-jobs, -times_s))
        width = len(group.machines)
        depth = -(-len(jobs) // width)
        by_place_s = np.zeros(depth * width)
        by_place_s[: len(jobs)] = times_s[longest_first]
        from_start_s = by_place_s.reshape(depth, width)[::-1].cumsum(axis=0)[::-1]
        completion_s = group.ready_s + from_start_s.ravel()[: len(jobs)]
        start_s = group.ready_s + (from_start_s - by_place_s.reshape(depth, width)).ravel()[: len(jobs)]
        machines = np.tile(group.machines[::-1], depth)[: len(jobs)]
        parts.append(Assignments(jobs[longest_first], machines, start_s, completion_s))
    whole = Assignments.join(parts)
    return whole.take(np.lexsort((whole.jobs, whole.start_s)))
