"""CISNE's turnaround predictor: the scheduler's own policy, run on a copy of the system state."""

from __future__ import annotations

from scheduler.compiled import Floats2, copied
from scheduler.model import JobId
from scheduler.time_shared.kernels.job_selection import system_of
from scheduler.time_shared.kernels.tables import Jobs, Methods, queues_of
from scheduler.time_shared.kernels.turnaround import look_ahead, room_for_forecasts
from scheduler.time_shared.loras import Loras, Method, Selection, in_order
from scheduler.time_shared.prediction.forecast import Forecast
from scheduler.time_shared.problem import SharedNodes


class PolicyAware:
    """Algorithm 1 with the policy of the live scheduler, which determines the order of starts.

    `remaining` is the method for Eqs 1 to 7, `cpu_time` for Eqs 8 and 9. The inputs are what a resource
    manager can measure; local load is assumed to stay constant. A step for each group of jobs that end
    together, each O(running) and one scheduling pass. Source: Hanzich et al. 2006, Algorithm 1.
    """

    def __init__(self, scheduler: Loras, remaining: str = "cpu", cpu_time: str = "cpu") -> None:
        self._scheduler = scheduler
        self._methods = methods_of(remaining, cpu_time)

    def past_slower(self, jobs: Jobs) -> Floats2 | None:
        """The slowdown of the jobs in past runs, where the remaining time is estimated by these."""
        return None

    def predict(self, now_s: float, shared: SharedNodes) -> list[Forecast]:
        shared.measure()
        jobs, nodes = copied(shared.jobs), copied(shared.nodes)
        self._scheduler.limit(nodes)
        queues = queues_of(in_order(shared, self._scheduler.ordering), shared.running)
        forecasts = room_for_forecasts(len(jobs.id), self.past_slower(jobs))
        look_ahead(system_of(jobs, nodes, queues), forecasts, self._scheduler.policy, self._methods)
        start_s, end_s = (now_s + forecasts.start_s).tolist(), (now_s + forecasts.end_s).tolist()
        numbers = jobs.id.tolist()
        running = [Forecast(JobId(numbers[row]), None, end_s[row]) for row in shared.running.tolist()]
        return running + [
            Forecast(JobId(numbers[row]), start_s[row], end_s[row]) for row in shared.waiting.tolist()
        ]


class Blind(PolicyAware):
    """Algorithm 1 that serves the queue in order, whatever the live scheduler selects: no backfilling.

    So its predictions for policies with backfilling are mostly too late. This seems to be what
    the paper did ("the difficulty of tracking the variation in the order").
    """

    def __init__(self, scheduler: Loras, remaining: str = "cpu", cpu_time: str = "cpu") -> None:
        in_turn = Loras(
            scheduler.ordering,
            Selection.JUST_FIRST,
            scheduler.node_selection,
            scheduler.estimate,
            scheduler.most_jobs,
        )
        super().__init__(in_turn, remaining, cpu_time)


def methods_of(remaining: str, cpu_time: str) -> Methods:
    """The methods as codes. Raises ValueError for an unknown name, and for CPU time by proportion."""
    if Method(cpu_time) is Method.PROPORTIONAL:
        raise ValueError("CPU time used is estimated by mpl or cpu (Eqs 8 and 9), not in proportion")
    return Methods(Method(remaining).code, Method(cpu_time).code)
