"""The sequential job scheduler of SmartNet and of Collins and George."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.mapping.greedy import Pick, greedy
from scheduler.mapping.placement import mapped
from scheduler.model import Assignments, Schedule
from scheduler.problem import SchedulingProblem


class Sjs:
    """SJS: the duplex of Min-min and Max-min; whichever gives the smaller sum of expected job times.

    Every job runs on one machine. A tie goes to Min-min; inside each, ties go to the lowest job index, then
    the lowest machine index. Source: Collins and George 2001, section 3.
    """

    def schedule(self, problem: SchedulingProblem) -> Schedule:
        return mapped(problem, duplex(problem.machine_etc_s, problem.ready_times.machine_s))


def duplex(etc_s: NDArray[np.float64], ready_s: NDArray[np.float64]) -> Assignments:
    """The better of Min-min and Max-min by sum of completion times; `etc_s` (n, m), `ready_s` (m,).

    Expected job times are completions less arrivals, and arrivals are the same in both, so the sums of
    completions decide.
    """
    min_min = greedy(etc_s, ready_s, Pick.SMALLEST)
    max_min = greedy(etc_s, ready_s, Pick.LARGEST)
    return max_min if max_min.completion_s.sum() < min_min.completion_s.sum() else min_min
