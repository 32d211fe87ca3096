"""A job selection that keeps promised turnaround limits."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.core.arrays import Floats
from scheduler.model import NodeSchedule
from scheduler.time_shared.core.passes import System
from scheduler.time_shared.core.tables import TOGETHER_S
from scheduler.time_shared.core.turnaround import Forecasts
from scheduler.time_shared.loras import JobChoice, Loras, answer
from scheduler.time_shared.predictors import methods_of
from scheduler.time_shared.problem import TimeSharedProblem


class Promising:
    """LoRaS that starts jobs out of order only if every promised limit is kept.

    The first of the queue starts as under Just First. Another job that fits also starts, unless that would
    break a promise that would otherwise be kept, or delay the first of the queue. A job whose own promise
    would be broken comes before the others and may delay the first. A pass costs one look-ahead, and for each
    job started out of turn, one more for each waiting job that fits. Ties as in `Loras`. Source: the outlook
    of Hanzich et al. 2006 ("assure a turnaround limit"); the rule is our own.
    """

    def __init__(
        self,
        ordering: str = "fcfs",
        node_selection: str = "normal",
        remaining: str = "cpu",
        cpu_time: str = "cpu",
        most_jobs: int | None = None,
    ) -> None:
        self._in_turn = Loras(ordering, JobChoice.JUST_FIRST, node_selection, most_jobs=most_jobs)
        self._methods = methods_of(remaining, cpu_time)

    def schedule(self, problem: TimeSharedProblem) -> NodeSchedule:
        problem.shared_nodes.measure()
        system = self._in_turn.system(problem.shared_nodes)
        system.start_jobs()
        trial: _Trial | None = self._look_ahead(problem, system)
        while trial is not None:
            system, trial = trial.system, self._next_out_of_turn(problem, trial)
        return answer(
            problem, system, "it is predicted to delay {}, the first of the queue, or to break a promise"
        )

    def _next_out_of_turn(self, problem: TimeSharedProblem, before: _Trial) -> _Trial | None:
        waiting = before.system.waiting_rows().tolist()
        for row in sorted(waiting[1:], key=lambda row: row not in before.broken):  # the threatened ones first
            if not before.system.choose(row):
                continue
            system = before.system.copied()
            system.choose(row)
            system.start(row)
            trial = self._look_ahead(problem, system)
            delays_head = trial.start_s[waiting[0]] > before.start_s[waiting[0]] + TOGETHER_S
            rescued = row in before.broken and row not in trial.broken
            if trial.broken <= before.broken and (rescued or not delays_head):
                return trial
        return None

    def _look_ahead(self, problem: TimeSharedProblem, system: System) -> _Trial:
        forecasts = Forecasts(system.copied(), self._methods)
        number, promised = system.cluster.jobs.id, problem.shared_nodes.promised
        broken = frozenset(
            row
            for rows in (system.running_rows(), system.waiting_rows())
            for row in rows.tolist()
            if (by_s := promised.get(number[row])) is not None
            and forecasts.end_s[row] > by_s - problem.now_s + TOGETHER_S
        )
        return _Trial(system, forecasts.start_s, broken)


class _Trial(NamedTuple):
    system: System
    start_s: Floats
    """Predicted starts by row, in seconds from now."""
    broken: frozenset[int]
    """The rows of the jobs whose promises are predicted to be broken."""
