"""ETC tables by classes of jobs and machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scheduler.core.arrays import Floats, Floats2, Ints, nones
from scheduler.mapping.core.classes import find_classes, put_in_place
from scheduler.mapping.problem import MappingProblem


class EtcTable(NamedTuple):
    """An ETC table by classes, C of jobs and K of machines. It never changes."""

    by_job_class_s: Floats2  # (C, K)
    by_machine_class_s: Floats2  # (K, C): the same, transposed
    jobs: Ints  # (n,) by class, ascending in each; no class is empty
    first_job: Ints  # (C + 1,) where each class begins in `jobs`
    machines: Ints  # (m,) by class, ascending in each; no class is empty
    first_machine: Ints  # (K + 1,)


@dataclass(frozen=True)
class ByClass:
    """C job classes and K machine classes of one problem.

    * `table`: their expected times and members.
    * `cluster_s` (C, clusters): expected times in parallel.
    * `ready_s` (m,): when each machine is ready.
    """

    table: EtcTable
    cluster_s: Floats
    ready_s: Floats

    @classmethod
    def of(cls, problem: MappingProblem) -> ByClass:
        """Find the classes of a problem: a few passes over the ETC table by class, and one over jobs and
        machines."""
        etc, m = problem.etc, problem.ready_times.n_machines
        times_s, job_class_of = _merged(*_used(etc.by_class_s, etc.job_class_of))
        columns_s, machine_class_of = _merged(*_used(times_s.T, etc.resource_class_of[:m]))
        unmerged = columns_s.shape[::-1] == times_s.shape
        table = EtcTable(
            times_s if unmerged else _row_after_row(columns_s.T),
            columns_s,
            *by_class(job_class_of, len(times_s)),
            *by_class(machine_class_of, len(columns_s)),
        )
        cluster_s = _row_after_row(times_s[:, etc.resource_class_of[m:]])
        return cls(table, cluster_s, np.array(problem.ready_times.machine_s, dtype=np.float64))

    @property
    def all_jobs(self) -> Ints:
        """(C,) position in `table.jobs` at which the jobs of each class begin."""
        return self.table.first_job[:-1]


def _used(rows_s: Floats, class_of: Ints) -> tuple[Floats, Ints]:
    used = np.bincount(class_of, minlength=len(rows_s)) > 0
    if used.all():
        return rows_s, class_of
    return rows_s[used], (np.cumsum(used) - 1)[class_of]


def _merged(rows_s: Floats, class_of: Ints) -> tuple[Floats, Ints]:
    """Merge equal rows."""
    rows_s = _row_after_row(rows_s)
    row_class, n_classes = classes_of_rows(rows_s)
    if n_classes == len(rows_s):
        return rows_s, class_of.copy()
    first = np.empty(n_classes, dtype=np.int64)
    first[row_class[::-1]] = np.arange(len(rows_s))[::-1]
    return _row_after_row(rows_s[first]), row_class[class_of]


def _row_after_row(table_s: Floats) -> Floats:
    """The table in row-major order and read-only, as compiled code needs it; a copy if it is not."""
    rows_s = np.ascontiguousarray(table_s)
    rows_s.flags.writeable = False
    return rows_s


def classes_of_rows(rows_s: Floats) -> tuple[Ints, int]:
    """The class of each row, numbered in order of appearance, and the number of classes."""
    n = len(rows_s)
    first_row = nones(2 << n.bit_length())
    class_of = np.empty(n, dtype=np.int64)
    return class_of, find_classes(rows_s.view(np.uint64), first_row, class_of)


def by_class(class_of: Ints, n_classes: int) -> tuple[Ints, Ints]:
    """Members by class, ascending in each; and where each class begins, (classes + 1,)."""
    first = np.zeros(n_classes + 1, dtype=np.int64)
    np.cumsum(np.bincount(class_of, minlength=n_classes), out=first[1:])
    members = np.empty(len(class_of), dtype=np.int64)
    put_in_place(class_of, first[:-1].copy(), members)
    return members, first


def in_a_row(members: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """The machines of all clusters, one cluster after the other, and where each begins, (clusters + 1,)."""
    machines = np.array([j for cluster in members for j in cluster], dtype=np.int64)
    return machines, np.cumsum([0, *map(len, members)], dtype=np.int64)
