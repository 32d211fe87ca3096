"""Minimum completion time."""

from scheduler.mapping.placer import Placer
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Schedule


class Mct:
    """MCT: each job, in queue order, to the machine on which it completes first.

    Ties go to the lowest machine index. O(n m). Source: Braun et al. 2001.
    """

    def schedule(self, problem: MappingProblem) -> Schedule:
        placer = Placer(problem)
        for i, etc_s in enumerate(problem.machine_etc_s):
            completion_s = placer.machine_s + etc_s
            placer.place(i, int(completion_s.argmin()))
        return placer.schedule()
