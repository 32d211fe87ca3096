"""Tables of jobs and nodes: placing jobs, their remaining time and CPU rate (Eqs 1 to 9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scheduler.compiled import Flags, Floats, Ints, Ints2, compiled, inlined, part

NONE = -1
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
    communicates: Flags  # bound by communication rather than by computation
    used_s: Floats  # CPUtime_cur
    run_s: Floats  # ExeTime_cur
    nodes: Ints2  # (rows, width): where it runs, in the first `tasks` places


class Nodes(NamedTuple):
    """One row per node: what it carries, and what the social contract allows."""

    n_jobs: Ints  # MPL_paral
    jobs: Ints2  # (N, most): their rows, in order of start
    cpu: Floats  # CPU_paral: the sum of CPU(J)
    memory_mb: Floats
    local_mpl: Floats  # MPL_local
    local_cpu: Floats  # CPU_local
    most_jobs: Ints  # none where the node is not available
    most_cpu: Floats
    most_memory_mb: Floats


class Queues(NamedTuple):
    """Rows of the waiting jobs, in the order of the queue, and of the running jobs."""

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
    """How the remaining time of a running job is estimated, and the CPU time that it uses meanwhile.
    BY_HISTORY is for the remaining time in forecasts only."""

    remaining: int
    cpu: int


def queues_of(waiting: Sequence[int] | Ints, running: Sequence[int] | Ints) -> Queues:
    """Tables of these rows that a pass may change, with room for all jobs to run."""
    n_running = len(running)
    rows = np.zeros(n_running + len(waiting), dtype=np.int64)
    rows[:n_running] = running
    window = np.array([0, len(waiting)])
    return Queues(np.array(waiting, dtype=np.int64), window, rows, np.array([n_running]))


@inlined
def drop_waiting(queues: Queues, x: int) -> None:
    """Remove the waiting job in place x; O(1) for the first."""
    for y in range(x, queues.window[0], -1):
        queues.waiting[y] = queues.waiting[y - 1]
    queues.window[0] += 1


@inlined
def n_waiting(queues: Queues) -> int:
    return int(queues.window[1] - queues.window[0])


@inlined
def drop_running(queues: Queues, x: int) -> None:
    """Remove the running job in place x; may change the order of the others."""
    queues.n_running[0] -= 1
    queues.running[x] = queues.running[queues.n_running[0]]


@inlined
def add_running(queues: Queues, row: int) -> None:
    queues.running[queues.n_running[0]] = row
    queues.n_running[0] += 1


@inlined
def fits(jobs: Jobs, nodes: Nodes, row: int, n: int) -> bool:
    """Whether one task of the job may start on node n: MPL, memory and CPU requirement within limits."""
    return bool(
        nodes.n_jobs[n] < nodes.most_jobs[n]
        and nodes.memory_mb[n] + jobs.memory_mb[row] <= nodes.most_memory_mb[n] + SLACK
        and nodes.cpu[n] + jobs.cpu[row] <= nodes.most_cpu[n] + SLACK
    )


@inlined
def add_up(jobs: Jobs, nodes: Nodes, n: int) -> None:
    """Sums in order of start, so that they do not depend on earlier jobs."""
    cpu = memory_mb = 0.0
    for x in range(nodes.n_jobs[n]):
        cpu += jobs.cpu[nodes.jobs[n, x]]
        memory_mb += jobs.memory_mb[nodes.jobs[n, x]]
    nodes.cpu[n] = cpu
    nodes.memory_mb[n] = memory_mb


@compiled
def put(jobs: Jobs, nodes: Nodes, row: int, chosen: Ints) -> None:
    """Place the job's tasks on the first nodes in `chosen`."""
    for x in range(jobs.tasks[row]):
        n = chosen[x]
        jobs.nodes[row, x] = n
        nodes.jobs[n, nodes.n_jobs[n]] = row
        nodes.n_jobs[n] += 1
        add_up(jobs, nodes, n)


@compiled
def take_off(jobs: Jobs, nodes: Nodes, row: int) -> None:
    """Free the nodes of a job."""
    for x in range(jobs.tasks[row]):
        n = jobs.nodes[row, x]
        y = 0
        while nodes.jobs[n, y] != row:
            y += 1
        nodes.n_jobs[n] -= 1
        for z in range(y, nodes.n_jobs[n]):
            nodes.jobs[n, z] = nodes.jobs[n, z + 1]
        add_up(jobs, nodes, n)


@part
def slowdown(jobs: Jobs, nodes: Nodes, row: int, method: int) -> float:
    """Time relative to isolation from now on, by the job's worst node.

    MPL_max(J), the most tasks, parallel and local (Eqs 3 and 4); or CPU_max(J), the largest CPU requirement,
    if that is above one CPU (Eqs 5 to 7).
    """
    most = 0.0 if method == BY_MPL else 1.0
    for x in range(jobs.tasks[row]):
        n = jobs.nodes[row, x]
        if method == BY_MPL:
            most = max(most, nodes.n_jobs[n] + nodes.local_mpl[n])
        else:
            most = max(most, nodes.cpu[n] + nodes.local_cpu[n])
    return most


@inlined
def remaining_s(jobs: Jobs, row: int, used_s: float, run_s: float, method: int, slower: float) -> float:
    """RemainTime(J), `slower` being its slowdown by the same method. Never negative.

    Eq 1 is undefined for a job that has used no CPU time: Eq 2 instead.
    """
    left_s = max(0.0, jobs.cpu_s[row] - used_s)
    if method == PROPORTIONAL and used_s > TOGETHER_S:  # less is rounding
        return float(run_s * left_s / used_s)
    isolated_s = jobs.exe_s[row] * left_s / jobs.cpu_s[row]
    return float(isolated_s if method == PROPORTIONAL else isolated_s * slower)


@inlined
def cpu_rate(jobs: Jobs, row: int, method: int, slower: float) -> float:
    """CPU time used per second (Eq 8 by MPL, Eq 9 by CPU)."""
    if method == BY_MPL:
        return float(jobs.cpu_s[row] / (slower * jobs.exe_s[row]))
    return float(jobs.cpu[row] / slower)


@compiled
def expect(jobs: Jobs, nodes: Nodes, rows: Ints, method: int, expected_s: Floats) -> None:
    """Expected run times of the jobs in `rows`, which have just been placed."""
    for x in range(len(rows)):
        row = rows[x]
        slower = 1.0 if method == PROPORTIONAL else slowdown(jobs, nodes, row, method)
        expected_s[x] = jobs.exe_s[row] * slower
