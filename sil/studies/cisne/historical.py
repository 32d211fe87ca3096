"""Algorithm 1 with a remaining time from past runs: the hybrid that Hanzich et al. 2006 plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from scheduler.compiled import Floats2
from scheduler.time_shared.kernels.tables import BY_HISTORY, Jobs, Methods
from scheduler.time_shared.loras import Loras
from scheduler.time_shared.predictors import PolicyAware, methods_of

FEWEST_RUNS = 3
"""Fewest past runs of a kind of job in a state from which its slowdown is known."""


class PastRun(NamedTuple):
    """A completed run: the kind of job (its execution time in isolation and its tasks), the state in which it
    ran, and how long it took, relative to isolation. The state is `mpl`, the number of parallel jobs on that
    of its nodes which had most, as a mean over the run."""

    exe_s: float
    tasks: int
    mpl: float
    slowdown: float


class RunHistory:
    """Past runs under one policy: what comparable ones took, where at least FEWEST_RUNS are known.

    Runs are comparable if the jobs are of one kind and the states round to the same number of jobs.
    """

    def __init__(self, runs: Iterable[PastRun]) -> None:
        found: dict[tuple[float, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for run in runs:
            found[run.exe_s, run.tasks][round(run.mpl)].append(run.slowdown)
        self._slower = {
            kind: {
                mpl: float(np.median(slower)) for mpl, slower in states.items() if len(slower) >= FEWEST_RUNS
            }
            for kind, states in found.items()
        }
        self._width = 1 + max((mpl for states in self._slower.values() for mpl in states), default=0)

    def slower(self, jobs: Jobs) -> Floats2:
        """The median slowdown of each job, (rows, MPL); 0 = unknown."""
        table = np.zeros((len(jobs.id), self._width))
        for row, kind in enumerate(zip(jobs.exe_s.tolist(), jobs.tasks.tolist(), strict=True)):
            for mpl, slower in self._slower.get(kind, {}).items():
                table[row, mpl] = slower
        return table


class Historical(PolicyAware):
    """Algorithm 1 with the policy of the live scheduler, where RemainTime is that in isolation (Eq 2) times
    the slowdown of past runs of this kind in this state. Where that is unknown, it is estimated as the CPU
    time is, by Eq 4 or 5.

    Source: the future work of Hanzich et al. 2006, section 5.
    """

    def __init__(self, scheduler: Loras, history: RunHistory, cpu_time: str = "cpu") -> None:
        super().__init__(scheduler, cpu_time, cpu_time)
        self._methods = Methods(BY_HISTORY, methods_of(cpu_time, cpu_time).cpu)
        self._history = history

    def past_slower(self, jobs: Jobs) -> Floats2:
        return self._history.slower(jobs)
