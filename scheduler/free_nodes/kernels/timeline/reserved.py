"""The reservations of the jobs that wait for identical nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import Floats, Floats2, Ints, inlined, part
from scheduler.free_nodes.kernels.queue_tree import JOB

N_RESERVED, N_ROWS, N_ROWS_OF_RUNS, IS_SETTLED = range(4)
"""Places in `Reservations.n`: the number of reservations, those of rows of the last profiles, and whether
each reservation was the earliest possible one beside the others."""


class Reservations(NamedTuple):
    """What one pass hands on to the next, and its work space, for n waiting jobs and r runs."""

    n: Ints  # (4,): N_RESERVED, N_ROWS, N_ROWS_OF_RUNS, IS_SETTLED
    jobs: Ints  # (n,) in queue order
    start_s: Floats  # (n,)
    waiting: Floats2  # (n, 4)
    new_start_s: Floats  # (n,)
    by_start: Ints  # (n,)
    scratch: Ints  # (n,)
    end_s: Floats  # (n,)
    by_end: Ints  # (n,)
    started: Ints  # (n,)
    profile: Floats2  # (4 n + r + 3, 2)
    peaks: Floats2  # (4 n + r + 3, 2): see `find_peaks`
    runs: Floats2  # (4 n + r + 3, 2): the profile without reservations
    last_profile: Floats2  # (4 n + r + 3, 2): with all reservations, after the last pass
    last_runs: Floats2  # (4 n + r + 3, 2): without them


@inlined
def first_reserved_s(r: Reservations) -> float:
    """The start of the first reservation; infinite if there is none."""
    first_s = np.inf
    for x in range(r.n[N_RESERVED]):
        first_s = min(first_s, r.start_s[x])
    return first_s


@part
def carry_over(jobs: Floats2, jobs_before: Ints, starts_before_s: Floats, starts_s: Floats) -> int:
    """Copy earlier reservations; infinite for jobs without one. Both tables are in queue order. Returns how
    many are found."""
    y, n_found = 0, 0
    for x in range(len(jobs)):
        starts_s[x] = np.inf
        for z in range(y, len(jobs_before)):
            if jobs_before[z] == jobs[x, JOB]:
                starts_s[x] = starts_before_s[z]
                y = z + 1
                n_found += 1
                break
    return n_found
