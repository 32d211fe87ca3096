"""Remaining time and CPU rate of a running job (Eqs 1 to 9)."""

from __future__ import annotations

from scheduler.compiled import Floats, Ints, compiled, inlined, part
from scheduler.time_shared.kernels.tables import TOGETHER_S, Jobs, Nodes

PROPORTIONAL, BY_MPL, BY_CPU = range(3)


@part
def most_mpl(jobs: Jobs, nodes: Nodes, row: int) -> float:
    """MPL_max(J): the most tasks, parallel and local, on any of its nodes (Eq 3)."""
    most = 0.0
    for x in range(jobs.tasks[row]):
        n = jobs.nodes[row, x]
        most = max(most, nodes.n_jobs[n] + nodes.local_mpl[n])
    return most


@part
def most_cpu(jobs: Jobs, nodes: Nodes, row: int) -> float:
    """CPU_max(J): the largest CPU requirement on any of its nodes (Eq 7)."""
    most = 0.0
    for x in range(jobs.tasks[row]):
        n = jobs.nodes[row, x]
        most = max(most, nodes.cpu[n] + nodes.local_cpu[n])
    return most


@inlined
def slowdown(jobs: Jobs, nodes: Nodes, row: int, method: int) -> float:
    """Time relative to isolation from now on (Eq 4, Eqs 5 and 6)."""
    if method == BY_MPL:
        return most_mpl(jobs, nodes, row)
    return max(1.0, most_cpu(jobs, nodes, row))


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
