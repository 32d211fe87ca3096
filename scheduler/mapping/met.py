"""Minimum execution time."""

import numpy as np

from scheduler.mapping.placer import Placement
from scheduler.model import Schedule
from scheduler.problem import SchedulingProblem


class Met:
    """MET: each job, in queue order, to the available machine that runs it fastest, however busy that is.

    Ties go to the lowest machine index. O(n m). Source: Braun et al. 2001.
    """

    def schedule(self, problem: SchedulingProblem) -> Schedule:
        placement = Placement(problem)
        available = np.isfinite(placement.machine_s)
        for i, etc_s in enumerate(problem.machine_etc_s):
            time_s = np.where(available, etc_s, np.inf)
            placement.place(i, int(time_s.argmin()))
        return placement.schedule()
