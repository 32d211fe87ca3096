"""What the kernels work on: jobs, nodes, and who waits and runs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from scheduler.compiled import FLOATS, INTS, Floats, Ints, inlined, named_tuple

NOBODY = -1
SLACK = 1e-9
"""Limits may be exceeded by so much, since sums of fractions are rounded."""

TOGETHER_S = 1e-9
"""Jobs that end within so short a time end together, before anybody starts: rounding decides nothing."""

INTS_2 = types.Array(types.int64, 2, "C")
BOOLS = types.Array(types.boolean, 1, "C")
Bools = NDArray[np.bool_]


class Jobs(NamedTuple):
    """One row per job that waits or runs. Times are of one task, in isolation where not said otherwise."""

    id: Ints
    tasks: Ints  # one on each node
    cpu: Floats  # CPU(J), a share of one CPU
    memory_mb: Floats  # of one task
    exe_s: Floats  # ExeTime_tot
    cpu_s: Floats  # CPUtime_tot
    communicates: Bools  # bound by communication rather than by computation
    used_s: Floats  # CPUtime_cur
    run_s: Floats  # ExeTime_cur
    nodes: Ints  # (rows, width): where it runs, in the first `tasks` places


class Nodes(NamedTuple):
    """One row per node: what it carries, and what the social contract allows."""

    n_jobs: Ints  # MPL_paral
    jobs: Ints  # (N, most): their rows, in order of start
    cpu: Floats  # CPU_paral: the sum of CPU(J)
    memory_mb: Floats
    local_mpl: Floats  # MPL_local
    local_cpu: Floats  # CPU_local
    most_jobs: Ints  # none where the node is not available
    most_cpu: Floats
    most_memory_mb: Floats


class Queues(NamedTuple):
    """Rows of jobs: those that wait, in the order of the queue, and those that run."""

    waiting: Ints
    window: Ints  # (2,) where in `waiting` they begin and end
    running: Ints
    n_running: Ints  # (1,)


class Policy(NamedTuple):
    """Which jobs start, on which nodes, and how EASY estimates the time that running jobs still take."""

    selection: int
    node_selection: int
    estimate: int


class Methods(NamedTuple):
    """How the remaining time of a running job is estimated, and the CPU time that it uses meanwhile."""

    remaining: int
    cpu: int


POLICY = named_tuple((types.int64, types.int64, types.int64), Policy)
METHODS = named_tuple((types.int64, types.int64), Methods)
JOBS = named_tuple((INTS, INTS, FLOATS, FLOATS, FLOATS, FLOATS, BOOLS, FLOATS, FLOATS, INTS_2), Jobs)
NODES = named_tuple((INTS, INTS_2, FLOATS, FLOATS, FLOATS, FLOATS, INTS, FLOATS, FLOATS), Nodes)
QUEUES = named_tuple((INTS, INTS, INTS, INTS), Queues)


@inlined
def drop_waiting(queues: Queues, x: int) -> None:
    """Take out the waiting job in place x; at no cost if it is the first."""
    for y in range(x, queues.window[0], -1):
        queues.waiting[y] = queues.waiting[y - 1]
    queues.window[0] += 1


@inlined
def n_waiting(queues: Queues) -> int:
    return int(queues.window[1] - queues.window[0])


@inlined
def drop_running(queues: Queues, x: int) -> None:
    """Take out the running job in place x; the order of the others does not matter."""
    queues.n_running[0] -= 1
    queues.running[x] = queues.running[queues.n_running[0]]


@inlined
def add_running(queues: Queues, row: int) -> None:
    queues.running[queues.n_running[0]] = row
    queues.n_running[0] += 1
