"""Opportunistic load balancing."""

import numpy as np

from scheduler.mapping.placer import Placer
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Schedule


class Olb:
    """OLB: the next job in queue order goes to the machine that becomes available first, however slow it is.

    Machines that may not run the job are passed over. Ties go to the lowest machine index. O(n m).
    Source: Collins and George 2001, section 2.2; Freund et al. 1996.
    """

    def schedule(self, problem: MappingProblem) -> Schedule:
        placer = Placer(problem)
        for i, etc_s in enumerate(problem.machine_etc_s):
            ready_s = np.where(np.isfinite(etc_s), placer.machine_s, np.inf)
            placer.place(i, int(ready_s.argmin()))
        return placer.schedule()
