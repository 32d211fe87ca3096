"""Predictors of turnaround times, by name: `aware`, `blind mpl-mpl`, `hybrid cpu-cpu`; a job selection
that keeps promised turnaround limits.

Predictors are Algorithm 1 and Equations 1 to 9 of Hanzich et al. 2006, with the policy of LoRaS compiled, and
as published for any other scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np

from scheduler.core.arrays import Floats, Floats2
from scheduler.model import JobId, NodeSchedule
from scheduler.naming import Misnamed
from scheduler.time_shared.core.cluster import SharedCluster
from scheduler.time_shared.core.passes import System
from scheduler.time_shared.core.tables import TOGETHER_S, Jobs, Methods, Nodes
from scheduler.time_shared.core.turnaround import Forecasts
from scheduler.time_shared.forecast import ErrorHistory, Forecast, Hybrid, Predictor, WithInterval
from scheduler.time_shared.loras import JobChoice, Loras, Method, answer
from scheduler.time_shared.problem import SharedNodes, TimeSharedProblem, TimeSharedScheduler


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
        system = self._scheduler.system(shared)
        made = Forecasts(system, self._methods, self.past_slower(shared.jobs))
        start_s, end_s = ((now_s + np.asarray(times)).tolist() for times in (made.start_s, made.end_s))
        numbers = shared.jobs.id.tolist()
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
            JobChoice.JUST_FIRST,
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


class Algorithm1:
    """Predicts by calling a scheduler as the live one is called: for schedulers other than LoRaS.

    Every step re-estimates all running jobs and calls the scheduler, so it is slow. It is the reference for
    the compiled predictors.
    """

    def __init__(self, scheduler: TimeSharedScheduler, remaining: str = "cpu", cpu_time: str = "cpu") -> None:
        methods_of(remaining, cpu_time)
        self._scheduler = scheduler
        self._remaining = Method(remaining)
        self._cpu_time = Method(cpu_time)

    def predict(self, now_s: float, shared: SharedNodes) -> list[Forecast]:
        shared.measure()
        jobs, nodes = shared.jobs.copied(), shared.nodes.copied()  # line 1
        cluster = SharedCluster(jobs, nodes)
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
                cluster.put(row, np.array(start.nodes, dtype=np.int64))
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
                cluster.take_off(row)
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


AWARE, BLIND, HYBRID = "aware", "blind", "hybrid"


@dataclass(frozen=True, slots=True)
class PredictorName:
    """A parsed name: Algorithm 1 that follows the live policy (aware) or serves the queue in order (blind),
    or the first corrected by its past errors (hybrid); and the methods of estimation."""

    kind: str
    remaining: Method
    cpu_time: Method

    def __str__(self) -> str:
        """The same for all names of the same predictor."""
        return f"{self.kind} {self.remaining}-{self.cpu_time}"

    @property
    def uncorrected(self) -> PredictorName:
        """The predictor whose past errors correct this one."""
        return PredictorName(AWARE, self.remaining, self.cpu_time) if self.kind == HYBRID else self


def read(name: str) -> PredictorName:
    """Parse a kind, optionally followed by the methods for remaining time and CPU time (default cpu-cpu).

    Raises Misnamed.
    """
    kind, _, methods = name.strip().partition(" ")
    if kind not in (AWARE, BLIND, HYBRID):
        raise Misnamed(f"unknown predictor '{kind}'; expected {AWARE}, {BLIND} or {HYBRID}")
    remaining, _, cpu_time = (methods.strip() or "cpu-cpu").partition("-")
    try:
        methods_of(remaining, cpu_time)
    except ValueError as error:
        raise Misnamed(f"predictor '{name}': {error}") from None
    return PredictorName(kind, Method(remaining), Method(cpu_time))


def make(
    name: PredictorName, scheduler: TimeSharedScheduler, errors_of: Callable[[PredictorName], ErrorHistory]
) -> Predictor:
    """The named predictor of the decisions of `scheduler`, with intervals if enough errors are recorded.

    `scheduler` is a separate instance, not the live one. Raises Misnamed for a blind predictor of a scheduler
    other than LoRaS.
    """
    predictor: Predictor
    if not isinstance(scheduler, Loras):
        if name.kind == BLIND:
            raise Misnamed(f"the predictor '{BLIND}' is for LoRaS only; this is another scheduler")
        predictor = Algorithm1(scheduler, name.remaining, name.cpu_time)
    elif name.kind == BLIND:
        predictor = Blind(scheduler, name.remaining, name.cpu_time)
    else:
        predictor = PolicyAware(scheduler, name.remaining, name.cpu_time)
    errors = errors_of(name.uncorrected)
    with_interval = WithInterval(predictor, errors)
    return Hybrid(with_interval, errors) if name.kind == HYBRID else with_interval


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
