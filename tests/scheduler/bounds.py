"""Exact lower bounds of schedules."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from scheduler.model import Assignment, Assignments


def least_sum_of_completions(etc_s: NDArray[np.float64], ready_s: NDArray[np.float64]) -> Assignments:
    """The schedule of least sum of completion times on unrelated machines, one job at a time on each.

    `etc_s` (n, m), infinite where a job cannot run; `ready_s` (m,), infinite where a machine is down.
    Exact: the job in the k-th place from the end of machine j adds ready_s[j] + k etc_s[i, j] to the sum, so
    jobs are assigned to (machine, place from the end) at least cost. O((n m)^2 n) at worst; meant for up to
    some 60 jobs on 10 machines. Raises ValueError if some job can run on no machine.
    Source: Horn 1973; Bruno, Coffman and Sethi 1974.
    """
    n, m = etc_s.shape
    place = np.arange(1, n + 1)
    cost = ready_s[None, :, None] + place[None, None, :] * etc_s[:, :, None]
    try:
        jobs, slots = linear_sum_assignment(cost.reshape(n, m * n))
    except ValueError:
        raise ValueError("some job can run on no available machine") from None
    machine_of, place_from_end = np.divmod(slots, n)
    rows: list[Assignment] = []
    for j in range(m):
        here = np.flatnonzero(machine_of == j)
        start_s = float(ready_s[j])
        for k in here[np.argsort(-place_from_end[here])]:
            i = int(jobs[k])
            rows.append(Assignment(i, j, start_s, start_s + float(etc_s[i, j])))
            start_s = rows[-1].completion_s
    return Assignments.of(rows)
