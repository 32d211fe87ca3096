"""What the kernels work on, and what they return."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import FixedFloats2, Floats, Ints, inlined

NOBODY = -1
BEYOND_ALL = int(np.iinfo(np.int64).max)
"""A job or machine index that comes after every other."""


class Table(NamedTuple):
    """An ETC table by classes, C of jobs and K of machines. Nothing here ever changes."""

    by_job_class_s: FixedFloats2  # (C, K)
    by_machine_class_s: FixedFloats2  # (K, C): the same, transposed
    jobs: Ints  # (n,) by class, ascending in each; no class is empty
    first_job: Ints  # (C + 1,) where each class begins in `jobs`
    machines: Ints  # (m,) by class, ascending in each; no class is empty
    first_machine: Ints  # (K + 1,)


class Plan(NamedTuple):
    """What is decided, in order of decision."""

    jobs: Ints
    machines: Ints
    start_s: Floats
    completion_s: Floats


@inlined
def is_used_up(table: Table, next_job: Ints, c: int) -> bool:
    """No job of class c is left."""
    return bool(next_job[c] == table.first_job[c + 1])
