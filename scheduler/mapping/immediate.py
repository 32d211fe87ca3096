"""Immediate mode: OLB, MET, MCT and best assignment map each job in queue order, ignoring later ones."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from scheduler.core.arrays import Floats, Ints
from scheduler.mapping.placer import MappingPlacer
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Schedule


class _Immediate(ABC):
    def schedule(self, problem: MappingProblem) -> Schedule:
        placer = MappingPlacer(problem)
        for i, etc_s in enumerate(problem.machine_etc_s):
            placer.place(i, self.choose(problem, i, etc_s, placer.machine_s))
        return placer.schedule()

    @abstractmethod
    def choose(self, problem: MappingProblem, i: int, etc_s: Floats, ready_s: Floats) -> int:
        """The machine for job i, given its expected time on each machine (m,) and when each is ready (m,)."""


class Olb(_Immediate):
    """OLB: each job, in queue order, to the machine with the earliest ready time.

    Machines that may not run the job are passed over. Ties go to the lowest machine index. O(n m).
    Source: Collins and George 2001, section 2.2; Freund et al. 1996.
    """

    def choose(self, problem: MappingProblem, i: int, etc_s: Floats, ready_s: Floats) -> int:
        return int(np.where(np.isfinite(etc_s), ready_s, np.inf).argmin())


class Met(_Immediate):
    """MET: each job, in queue order, to the available machine with its least run time.

    Ties go to the lowest machine index. O(n m). Source: Braun et al. 2001.
    """

    def choose(self, problem: MappingProblem, i: int, etc_s: Floats, ready_s: Floats) -> int:
        return int(np.where(np.isfinite(ready_s), etc_s, np.inf).argmin())


class Mct(_Immediate):
    """MCT: each job, in queue order, to the machine that completes it first.

    Ties go to the lowest machine index. O(n m). Source: Braun et al. 2001.
    """

    def choose(self, problem: MappingProblem, i: int, etc_s: Floats, ready_s: Floats) -> int:
        return int((ready_s + etc_s).argmin())


class BestAssignment(_Immediate):
    """Best assignment: each job to an idle machine of its most preferred class.

    Jobs go in queue order. A job takes an idle machine of the most preferred class that has one; where no
    machine that can run it is idle, it goes to the one that becomes available first. Preference is the
    job's `preferred` list of machine classes, then expected time. Ties go to the more preferred class, then
    to the lowest machine index. O(n m log m). Source: Collins and George 2001, section 2.2 (best assignment
    combined with OLB).
    """

    def choose(self, problem: MappingProblem, i: int, etc_s: Floats, ready_s: Floats) -> int:
        wanted_first = np.lexsort((etc_s, _rank_of_class(problem, i)))
        possible_s = np.where(np.isfinite(etc_s), ready_s, np.inf)
        return int(wanted_first[possible_s[wanted_first].argmin()])


def _rank_of_class(problem: MappingProblem, i: int) -> Ints:
    """Place of each machine's class in the job's list of preferences; classes not listed come last."""
    preferred = problem.jobs[i].preferred
    rank = {name: place for place, name in enumerate(preferred)}
    by_class = [rank.get(name, len(preferred)) for name in problem.etc.resource_class_names]
    n_machines = problem.ready_times.n_machines
    if not by_class:
        return np.zeros(n_machines, dtype=np.int64)
    return np.array(by_class, dtype=np.int64)[problem.etc.resource_class_of[:n_machines]]
