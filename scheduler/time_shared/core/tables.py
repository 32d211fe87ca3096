"""Tables of jobs and nodes, and codes of policies and methods."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from scheduler.core.arrays import Flags, Floats, Ints, Ints2, floats, integers

JUST_FIRST, FIRST_FIT, BEST_FIT, EASY = range(4)
NORMAL, UNIFORM, UNIFORM_ELSE_NORMAL = range(3)
PROPORTIONAL, BY_MPL, BY_CPU, BY_HISTORY = range(4)

SLACK = 1e-9
"""Tolerance of limits, since sums of fractions are rounded."""

TOGETHER_S = 1e-9
"""Jobs that end within this time end together, before others start, so that rounding decides nothing."""


class Jobs(NamedTuple):
    """One row per waiting or running job. Times are of one task in isolation, unless noted."""

    id: Ints
    tasks: Ints  # one on each node
    cpu: Floats  # CPU(J), a share of one CPU
    memory_mb: Floats  # of one task
    exe_s: Floats  # ExeTime_tot
    cpu_s: Floats  # CPUtime_tot
    reserved: Floats  # for each task, of one CPU
    communicates: Flags  # bound by communication rather than by computation
    used_s: Floats  # CPUtime_cur
    run_s: Floats  # ExeTime_cur
    nodes: Ints2  # (rows, width): where it runs, in the first `tasks` places

    @classmethod
    def empty(cls, n: int, width: int) -> Jobs:
        nodes, flags = np.zeros((n, width), np.int64), np.zeros(n, np.bool_)
        numbers, amounts = (integers(n), integers(n)), (floats(n), floats(n), floats(n), floats(n), floats(n))
        return cls(*numbers, *amounts, flags, floats(n), floats(n), nodes)

    def copied(self) -> Jobs:
        """The same jobs, whose state changes independently of these."""
        return self._replace(used_s=self.used_s.copy(), run_s=self.run_s.copy(), nodes=self.nodes.copy())


class Nodes(NamedTuple):
    """One row per node: what it carries, and what the social contract allows."""

    n_jobs: Ints  # MPL_paral
    jobs: Ints2  # (N, most): their rows, in order of start
    cpu: Floats  # CPU_paral: the sum of CPU(J)
    memory_mb: Floats
    reserved: Floats  # the sum of reserved shares of the CPU
    local_mpl: Floats  # MPL_local
    local_cpu: Floats  # CPU_local
    most_jobs: Ints  # none where the node is not available
    most_cpu: Floats
    most_memory_mb: Floats
    most_reserved: Floats

    @classmethod
    def empty(cls, n: int, most: int) -> Nodes:
        rows, load = np.zeros((n, most), np.int64), (floats(n), floats(n), floats(n), floats(n), floats(n))
        return cls(integers(n), rows, *load, integers(n), floats(n), floats(n), floats(n))

    def copied(self) -> Nodes:
        columns: Any = (column.copy() for column in self)
        return Nodes(*columns)


class Policy(NamedTuple):
    """Which jobs start, on which nodes, and how EASY estimates the time that running jobs still take."""

    selection: int
    node_selection: int
    estimate: int


class Methods(NamedTuple):
    """How the remaining time of a running job is estimated, and the CPU time that it uses meanwhile.
    BY_HISTORY is for the remaining time in forecasts only."""

    remaining: int
    cpu: int
