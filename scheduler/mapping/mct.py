"""Minimum completion time."""

from scheduler.mapping.placer import Placement
from scheduler.model import Schedule
from scheduler.problem import SchedulingProblem


class Mct:
    """MCT: each job, in queue order, to the machine on which it completes first.

    Ties go to the lowest machine index. O(n m). Source: Braun et al. 2001.
    """

    def schedule(self, problem: SchedulingProblem) -> Schedule:
        placement = Placement(problem)
        for i, etc_s in enumerate(problem.machine_etc_s):
            completion_s = placement.machine_s + etc_s
            placement.place(i, int(completion_s.argmin()))
        return placement.schedule()
