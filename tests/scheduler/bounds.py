"""Exact lower bounds of schedules."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment


def least_sum_of_completions(etc_s: NDArray[np.float64], ready_s: NDArray[np.float64]) -> float:
    """The least sum of completion times on unrelated machines, each of which runs one job at a time.

    `etc_s` (n, m), infinite where a job cannot run; `ready_s` (m,), infinite where a machine is down.
    Exact: the job in the k-th place from the end of machine j adds ready_s[j] + k etc_s[i, j] to the sum, so
    jobs are assigned to (machine, place from the end) at least cost. O((n m)^2 n) at worst; meant for up to
    some 60 jobs on 10 machines. Raises ValueError if some job can run on no machine.
    Source: Horn 1973; Bruno, Coffman and Sethi 1974.
    """
    n, m = etc_s.shape
    cost = ready_s[None, :, None] + np.arange(1, n + 1)[None, None, :] * etc_s[:, :, None]
    slots = cost.reshape(n, m * n)
    return float(slots[linear_sum_assignment(slots)].sum())
