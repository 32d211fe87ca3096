"""Promised turnaround limits, and a job selection that keeps them."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np

from scheduler.compiled import Floats, copied
from scheduler.model import NodeSchedule
from scheduler.time_shared.forecast import Forecast
from scheduler.time_shared.kernels.selection import select_nodes, system_of
from scheduler.time_shared.kernels.tables import TOGETHER_S, Methods, put, queues_of
from scheduler.time_shared.kernels.turnaround import look_ahead, room_for_forecasts
from scheduler.time_shared.loras import WAITS, Loras, Selection, WaitReasons, in_order, starts_of
from scheduler.time_shared.predictors import methods_of
from scheduler.time_shared.problem import SharedNodes, TimeSharedProblem
from scheduler.wait_reasons import AllOthers


@dataclass(frozen=True)
class PromisesByForecast:
    """Promises a turnaround limit if the upper bound of the forecast of `predictor` keeps it; without an
    interval, if `margin` times the predicted time from now keeps it."""

    predictor: str
    margin: float

    def keeps(self, forecast: Forecast, now_s: float, by_s: float) -> bool:
        if forecast.high_s is not None:
            return max(forecast.high_s, forecast.end_s) <= by_s
        return now_s + self.margin * (forecast.end_s - now_s) <= by_s


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
        self._in_turn = Loras(ordering, Selection.JUST_FIRST, node_selection, most_jobs=most_jobs)
        self._methods = methods_of(remaining, cpu_time)

    def schedule(self, problem: TimeSharedProblem) -> NodeSchedule:
        shared = problem.shared_nodes
        shared.measure()
        trial = _Trial(shared, self._in_turn, problem.now_s)
        while trial.waiting and trial.choose(trial.waiting[0]):
            trial.start(trial.waiting[0])
        trial.look_ahead(self._methods)
        while (started := self._next_out_of_turn(trial)) is not None:
            trial = started
        return trial.schedule(problem)

    def _next_out_of_turn(self, trial: _Trial) -> _Trial | None:
        """The state with one more job started."""
        # The threatened ones first.
        for row in sorted(trial.waiting[1:], key=lambda row: row not in trial.broken):
            started, head = trial.with_started(row), trial.waiting[0]
            if started is None:
                continue
            started.look_ahead(self._methods)
            delays_head = started.start_s[head] > trial.start_s[head] + TOGETHER_S
            rescued = row in trial.broken and row not in started.broken
            if started.broken <= trial.broken and (rescued or not delays_head):
                return started
        return None


class _Trial:
    """A copy of the state in which jobs can be started."""

    start_s: Floats
    """Predicted starts by row, in seconds from now."""
    broken: frozenset[int]
    """The rows of the jobs whose promises are predicted to be broken."""

    def __init__(self, shared: SharedNodes, in_turn: Loras, now_s: float) -> None:
        self._shared = shared
        self._in_turn = in_turn
        self._now_s = now_s
        self._jobs, self._nodes = copied(shared.jobs), copied(shared.nodes)
        in_turn.limit(self._nodes)
        self.waiting: list[int] = in_order(shared, in_turn.ordering).tolist()
        self._running: list[int] = shared.running.tolist()
        self.started: list[int] = []
        self._chosen = np.empty(shared.n_nodes, dtype=np.int64)

    def with_started(self, row: int) -> _Trial | None:
        """This state with one more job started, whatever waits before it; None if it does not fit."""
        if not self.choose(row):
            return None
        other = copy(self)
        other._jobs, other._nodes = copied(self._jobs), copied(self._nodes)
        other.waiting, other._running, other.started = self.waiting[:], self._running[:], self.started[:]
        other.start(row)
        return other

    def look_ahead(self, methods: Methods) -> None:
        """Predict what happens if all others start in turn."""
        jobs, nodes = copied(self._jobs), copied(self._nodes)
        queues = queues_of(self.waiting, self._running)
        forecasts = room_for_forecasts(len(jobs.id))
        look_ahead(system_of(jobs, nodes, queues), forecasts, self._in_turn.policy, methods)
        by_s = {row: self._shared.promised.get(self._jobs.id[row]) for row in (*self._running, *self.waiting)}
        self.start_s = forecasts.start_s
        self.broken = frozenset(
            row
            for row, limit_s in by_s.items()
            if limit_s is not None and forecasts.end_s[row] > limit_s - self._now_s + TOGETHER_S
        )

    def schedule(self, problem: TimeSharedProblem) -> NodeSchedule:
        rows = np.array(self.started, dtype=np.int64)
        starts = starts_of(problem, self._jobs, self._nodes, rows, self._in_turn.estimate)
        return NodeSchedule(starts, AllOthers(problem.n_jobs, starts, WAITS, self._wait_reasons()))

    def _wait_reasons(self) -> WaitReasons | None:
        if not self.waiting:
            return None
        head = self.waiting[0]
        first = f"job {self._jobs.id[head]}, the first of the queue"
        held_back = f"it is predicted to delay {first}, or to break a promise"
        rows, policy = self._shared.waiting, self._in_turn.policy.node_selection
        return WaitReasons(rows, self._jobs, self._nodes, policy, head, held_back)

    def choose(self, row: int) -> bool:
        """Choose the nodes for a job; False if it cannot start now."""
        policy = self._in_turn.policy.node_selection
        return bool(select_nodes(self._jobs, self._nodes, policy, row, self._chosen))

    def start(self, row: int) -> None:
        """Start a job on the chosen nodes."""
        put(self._jobs, self._nodes, row, self._chosen)
        self.waiting.remove(row)
        self._running.append(row)
        self.started.append(row)
