"""Algorithm 1 and Equations 1 to 9 of Hanzich et al. 2006 as published, for any scheduler."""

from __future__ import annotations

from math import inf

import numpy as np

from scheduler.compiled import copied
from scheduler.model import JobId
from scheduler.ports import Scheduler
from scheduler.time_shared.kernels.tables import TOGETHER_S, Jobs, Nodes, put, take_off
from scheduler.time_shared.loras import Method
from scheduler.time_shared.prediction.forecast import Forecast
from scheduler.time_shared.prediction.policy_aware import methods_of
from scheduler.time_shared.problem import SharedNodes, TimeSharedProblem


class Algorithm1:
    """Predicts by calling a scheduler as the live one is called: for schedulers other than LoRaS.

    Every step re-estimates all running jobs and calls the scheduler, so it is slow. It is the reference for
    the compiled predictors.
    """

    def __init__(self, scheduler: Scheduler, remaining: str = "cpu", cpu_time: str = "cpu") -> None:
        methods_of(remaining, cpu_time)
        self._scheduler = scheduler
        self._remaining = Method(remaining)
        self._cpu_time = Method(cpu_time)

    def predict(self, now_s: float, shared: SharedNodes) -> list[Forecast]:
        shared.measure()
        jobs, nodes = copied(shared.jobs), copied(shared.nodes)  # line 1
        waiting, running = shared.waiting.tolist(), shared.running.tolist()
        start_s: dict[int, float | None] = dict.fromkeys(running) | dict.fromkeys(waiting, inf)
        end_s = dict.fromkeys(start_s, inf)
        t0_s = 0.0  # line 2; seconds from now

        def start_what_may() -> None:  # lines 8 to 13
            view = SharedNodes(
                jobs,
                nodes,
                np.array(waiting, np.int64),
                np.array(running, np.int64),
                promised=shared.promised,
                job_of=shared.job_of,
            )
            in_queue = [shared.job_of[JobId(int(jobs.id[row]))] for row in waiting]
            problem = TimeSharedProblem(now_s + t0_s, in_queue, view)
            for start in self._scheduler.schedule(problem).starts:
                row = int(view.waiting[start.job])
                put(jobs, nodes, row, np.array(start.nodes, dtype=np.int64))
                waiting.remove(row)
                running.append(row)
                start_s[row] = t0_s

        start_what_may()
        while running:  # line 3
            left_s = {row: remaining_s(jobs, nodes, row, self._remaining) for row in running}  # line 4
            took_s = min(left_s.values())  # line 5
            ended = [row for row in running if left_s[row] <= took_s + TOGETHER_S]
            for row in running:  # line 7, before they are removed
                jobs.used_s[row] = used_s(jobs, nodes, row, self._cpu_time, took_s)
                jobs.run_s[row] += took_s
            t0_s += took_s  # line 15
            for row in ended:  # line 6
                running.remove(row)
                take_off(jobs, nodes, row)
                end_s[row] = t0_s
            start_what_may()
        return [
            Forecast(JobId(int(jobs.id[row])), None if begin is None else now_s + begin, now_s + end_s[row])
            for row, begin in start_s.items()
        ]


def mpl_max(jobs: Jobs, nodes: Nodes, row: int) -> float:
    """Eq 3."""
    return float(max(nodes.n_jobs[n] + nodes.local_mpl[n] for n in jobs.nodes[row, : jobs.tasks[row]]))


def cpu_feasible(jobs: Jobs, nodes: Nodes, row: int) -> float:
    """Eq 6, in shares of one CPU: percentages would be off by a factor of 100 in CPU / CPU_max."""
    cpu_max = max(nodes.cpu[n] + nodes.local_cpu[n] for n in jobs.nodes[row, : jobs.tasks[row]])  # Eq 7
    return float(min(jobs.cpu[row], jobs.cpu[row] / float(cpu_max)))


def remaining_s(jobs: Jobs, nodes: Nodes, row: int, method: Method) -> float:
    """RemainTime(J): Eq 1, Eq 4 or Eq 5. Eq 1 is 0 / 0 for a job that has used no CPU time: Eq 2 instead."""
    left_s = max(0.0, jobs.cpu_s[row] - jobs.used_s[row])
    if method is Method.PROPORTIONAL and jobs.used_s[row] > TOGETHER_S:
        return float(jobs.run_s[row] * left_s / jobs.used_s[row])
    isolated_s = float(jobs.exe_s[row] * left_s / jobs.cpu_s[row])  # Eq 2
    match method:
        case Method.PROPORTIONAL:
            return isolated_s
        case Method.MPL:
            return isolated_s * mpl_max(jobs, nodes, row)
        case Method.CPU:
            return float(isolated_s * jobs.cpu[row] / cpu_feasible(jobs, nodes, row))


def used_s(jobs: Jobs, nodes: Nodes, row: int, method: Method, took_s: float) -> float:
    """CPUtime_cur(J) after `took_s` more seconds: Eq 8 or Eq 9. Never more than CPUtime_tot."""
    if method is Method.MPL:
        more_s = took_s * jobs.cpu_s[row] / (mpl_max(jobs, nodes, row) * jobs.exe_s[row])
    else:
        more_s = took_s * cpu_feasible(jobs, nodes, row)
    return float(min(jobs.cpu_s[row], jobs.used_s[row] + more_s))
