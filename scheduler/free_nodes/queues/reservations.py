"""The arrays of reservations for the jobs of a queue: new ones, and larger ones."""

from __future__ import annotations

from scheduler.compiled import allocate
from scheduler.free_nodes.kernels.timeline.reserved import N_RESERVED, Reservations

FEWEST = 64
ROWS_OF_A_JOB = 4
"""In a profile: where its reservation begins and ends, before a pass and thereafter."""


def new_reservations(jobs: int, releases: int) -> Reservations:
    """Room for so many waiting jobs, and releases; for no jobs, there is none."""
    rows = ROWS_OF_A_JOB * jobs + releases + 3 if jobs else 0
    of_each = (jobs, jobs, (jobs, 4), jobs, jobs, jobs, jobs, jobs, jobs)
    return allocate(Reservations, 4, *of_each, *[(rows, 2)] * 5)


def with_room(r: Reservations, jobs: int, releases: int) -> Reservations:
    """The same reservations with room for as many jobs and releases, if there is any."""
    if not len(r.jobs):
        return r
    new, n = new_reservations(jobs, releases), int(r.n[N_RESERVED])
    new.n[N_RESERVED], new.jobs[:n], new.start_s[:n] = n, r.jobs[:n], r.start_s[:n]
    return new
