"""Equations 1 to 9 of Hanzich et al. 2006, literally, for one job at a time."""

from __future__ import annotations

from scheduler.time_shared.kernels.tables import TOGETHER_S, Jobs, Nodes
from scheduler.time_shared.policies import Method


def mpl_max(jobs: Jobs, nodes: Nodes, row: int) -> float:
    """Eq 3."""
    return float(max(nodes.n_jobs[n] + nodes.local_mpl[n] for n in jobs.nodes[row, : jobs.tasks[row]]))


def cpu_max(jobs: Jobs, nodes: Nodes, row: int) -> float:
    """Eq 7."""
    return float(max(nodes.cpu[n] + nodes.local_cpu[n] for n in jobs.nodes[row, : jobs.tasks[row]]))


def cpu_feasible(jobs: Jobs, nodes: Nodes, row: int) -> float:
    """Eq 6, in shares of one CPU: percentages would be off by a factor of 100 in CPU / CPU_max."""
    return float(min(jobs.cpu[row], jobs.cpu[row] / cpu_max(jobs, nodes, row)))


def remaining_isolated_s(jobs: Jobs, row: int) -> float:
    """Eq 2."""
    return float(jobs.exe_s[row] * max(0.0, jobs.cpu_s[row] - jobs.used_s[row]) / jobs.cpu_s[row])


def remaining_s(jobs: Jobs, nodes: Nodes, row: int, method: Method) -> float:
    """RemainTime(J): Eq 1, Eq 4 or Eq 5. Eq 1 is 0 / 0 for a job that has used no CPU time: Eq 2 instead."""
    match method:
        case Method.PROPORTIONAL if jobs.used_s[row] > TOGETHER_S:
            left_s = max(0.0, jobs.cpu_s[row] - jobs.used_s[row])
            return float(jobs.run_s[row] * left_s / jobs.used_s[row])
        case Method.PROPORTIONAL:
            return remaining_isolated_s(jobs, row)
        case Method.MPL:
            return remaining_isolated_s(jobs, row) * mpl_max(jobs, nodes, row)
        case Method.CPU:
            feasible = cpu_feasible(jobs, nodes, row)
            return float(remaining_isolated_s(jobs, row) * jobs.cpu[row] / feasible)


def used_s(jobs: Jobs, nodes: Nodes, row: int, method: Method, took_s: float) -> float:
    """CPUtime_cur(J) after `took_s` more seconds: Eq 8 or Eq 9. Never more than CPUtime_tot."""
    if method is Method.MPL:
        more_s = took_s * jobs.cpu_s[row] / (mpl_max(jobs, nodes, row) * jobs.exe_s[row])
    else:
        more_s = took_s * cpu_feasible(jobs, nodes, row)
    return float(min(jobs.cpu_s[row], jobs.used_s[row] + more_s))
