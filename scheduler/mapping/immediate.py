"""Immediate mode: OLB, MET, MCT and best assignment map each job in queue order, ignoring later ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.mapping.placer import Placer
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Schedule


class Olb:
    """OLB: each job, in queue order, to the machine with the earliest ready time.

    Machines that may not run the job are passed over. Ties go to the lowest machine index. O(n m).
    Source: Collins and George 2001, section 2.2; Freund et al. 1996.
    """

    def schedule(self, problem: MappingProblem) -> Schedule:
        placer = Placer(problem)
        for i, etc_s in enumerate(problem.machine_etc_s):
            ready_s = np.where(np.isfinite(etc_s), placer.machine_s, np.inf)
            placer.place(i, int(ready_s.argmin()))
        return placer.schedule()


class Met:
    """MET: each job, in queue order, to the available machine with its least run time.

    Ties go to the lowest machine index. O(n m). Source: Braun et al. 2001.
    """

    def schedule(self, problem: MappingProblem) -> Schedule:
        placer = Placer(problem)
        available = np.isfinite(placer.machine_s)
        for i, etc_s in enumerate(problem.machine_etc_s):
            time_s = np.where(available, etc_s, np.inf)
            placer.place(i, int(time_s.argmin()))
        return placer.schedule()


class Mct:
    """MCT: each job, in queue order, to the machine that completes it first.

    Ties go to the lowest machine index. O(n m). Source: Braun et al. 2001.
    """

    def schedule(self, problem: MappingProblem) -> Schedule:
        placer = Placer(problem)
        for i, etc_s in enumerate(problem.machine_etc_s):
            completion_s = placer.machine_s + etc_s
            placer.place(i, int(completion_s.argmin()))
        return placer.schedule()


class BestAssignment:
    """Best assignment: each job to an idle machine of its most preferred class.

    Jobs go in queue order. A job takes an idle machine of the most preferred class that has one; where no
    machine that can run it is idle, it goes to the one that becomes available first. Preference is the
    job's `preferred` list of machine classes, then expected time. Ties go to the more preferred class, then
    to the lowest machine index. O(n m log m). Source: Collins and George 2001, section 2.2 (best assignment
    combined with OLB).
    """

    def schedule(self, problem: MappingProblem) -> Schedule:
        placer = Placer(problem)
        for i, etc_s in enumerate(problem.machine_etc_s):
            ready_s = np.where(np.isfinite(etc_s), placer.machine_s, np.inf)
            wanted_first = np.lexsort((etc_s, _rank_of_class(problem, i)))
            placer.place(i, int(wanted_first[ready_s[wanted_first].argmin()]))
        return placer.schedule()


def _rank_of_class(problem: MappingProblem, i: int) -> NDArray[np.int64]:
    """Place of each machine's class in the job's list of preferences; classes not listed come last."""
    preferred = problem.jobs[i].preferred
    rank = {name: place for place, name in enumerate(preferred)}
    by_class = [rank.get(name, len(preferred)) for name in problem.etc.resource_class_names]
    n_machines = problem.ready_times.n_machines
    if not by_class:
        return np.zeros(n_machines, dtype=np.int64)
    return np.array(by_class, dtype=np.int64)[problem.etc.resource_class_of[:n_machines]]
