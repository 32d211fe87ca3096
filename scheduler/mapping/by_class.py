"""A problem's job and machine classes: equal rows and columns of its ETC matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.compiled import Floats, Ints
from scheduler.mapping.kernels.classes import by_class, classes_of_rows
from scheduler.mapping.kernels.table import Table
from scheduler.mapping.problem import MappingProblem


@dataclass(frozen=True)
class ByClass:
    """C job classes and K machine classes of one problem.

    * `table`: their expected times and members.
    * `cluster_s` (C, clusters): expected times in parallel.
    * `ready_s` (m,): when each machine is ready.
    """

    table: Table
    cluster_s: Floats
    ready_s: Floats

    @classmethod
    def of(cls, problem: MappingProblem) -> ByClass:
        """A few passes over the ETC table by class, and one over jobs and machines."""
        etc, m = problem.etc, problem.ready_times.n_machines
        times_s, job_class_of = _merged(*_used(etc.by_class_s, etc.job_class_of))
        columns_s, machine_class_of = _merged(*_used(times_s.T, etc.resource_class_of[:m]))
        unmerged = columns_s.shape[::-1] == times_s.shape
        table = Table(
            times_s if unmerged else _row_after_row(columns_s.T),
            columns_s,
            *by_class(job_class_of, len(times_s)),
            *by_class(machine_class_of, len(columns_s)),
        )
        cluster_s = _row_after_row(times_s[:, etc.resource_class_of[m:]])
        return cls(table, cluster_s, np.array(problem.ready_times.machine_s))

    @property
    def all_jobs(self) -> Ints:
        """(C,) position in `table.jobs` at which the jobs of each class begin."""
        return self.table.first_job[:-1]


def _used(rows_s: Floats, class_of: Ints) -> tuple[Floats, Ints]:
    """Only the rows of classes that have members."""
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
    """In row-major order, as the kernels need it; read-only."""
    rows_s = np.ascontiguousarray(table_s)
    rows_s.flags.writeable = False
    return rows_s
