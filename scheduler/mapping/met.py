"""Minimum execution time."""

import numpy as np

from scheduler.mapping.placer import Placer
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Schedule


class Met:
    """MET: each job, in queue order, to the available machine that runs it fastest, however busy that is.

    Ties go to the lowest machine index. O(n m). Source: Braun et al. 2001.
    """

    def schedule(self, problem: MappingProblem) -> Schedule:
        placer = Placer(problem)
        available = np.isfinite(placer.machine_s)
        for i, etc_s in enumerate(problem.machine_etc_s):
            time_s = np.where(available, etc_s, np.inf)
            placer.place(i, int(time_s.argmin()))
        return placer.schedule()
