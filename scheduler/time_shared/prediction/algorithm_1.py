"""Algorithm 1 of Hanzich et al. 2006, literally, for any scheduler."""

from __future__ import annotations

from math import inf

import numpy as np

from scheduler.model import JobId
from scheduler.ports import Scheduler
from scheduler.time_shared.kernels.placing import put, take_off
from scheduler.time_shared.kernels.tables import TOGETHER_S
from scheduler.time_shared.policies import Method
from scheduler.time_shared.prediction.equations import remaining_s, used_s
from scheduler.time_shared.prediction.forecast import Forecast
from scheduler.time_shared.prediction.look_ahead import methods_of
from scheduler.time_shared.problem import SharedNodes, TimeSharedProblem, copied


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
        jobs, nodes = copied(shared)  # line 1
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
