"""Schedulers that misbehave, each in one way. Experiments name them as `tests.faulty:Class`."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from math import nan
from typing import Any

import numpy as np

from scheduler import rules
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.free_nodes.rigid import Rigid
from scheduler.mapping.immediate import Mct
from scheduler.mapping.pjs import Pjs
from scheduler.mapping.placer import MappingPlacer
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Assignment, NodeSchedule, Schedule
from tests.hostile import good_answer


def spoilt(module: str, spoils: dict[str, Callable[[Any, Any], Any]]) -> dict[str, type]:
    """Schedulers by name: something is done to a good answer, where it decides something."""

    def of(name: str, spoil: Callable[[Any, Any], Any]) -> type:
        def schedule(self: object, problem: Any) -> Any:
            good = good_answer(problem)
            return spoil(problem, good) if getattr(good, "starts", True) else good

        return type(name, (), {"schedule": schedule, "__module__": module})

    return {name: of(name, spoil) for name, spoil in spoils.items()}


def each_row(change: Callable[[MappingProblem, Assignment], Assignment]) -> Callable[[Any, Any], Schedule]:
    return lambda problem, good: Schedule.of(
        [change(problem, row) for row in good.assignments], good.wait_reasons
    )


def _without_the_last_job(problem: MappingProblem, good: Schedule) -> Schedule:
    last = problem.n_jobs - 1
    waiting = {i: reason for i, reason in good.wait_reasons.items() if i != last}
    return Schedule.of([a for a in good.assignments if a.job != last], waiting)


def _with_the_first_job_again(problem: MappingProblem, good: Schedule) -> Schedule:
    rows = list(good.assignments)
    if rows:
        a, end_s = rows[0], max(b.completion_s for b in rows)
        rows.append(replace(a, start_s=end_s, completion_s=end_s + a.completion_s - a.start_s))
    return Schedule.of(rows, good.wait_reasons)


def _writing_into_the_problem(problem: MappingProblem, good: Schedule) -> Schedule:
    problem.jobs = problem.jobs[:0]
    return good


SPOILT: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "ForgetsAJob": (rules.NO_JOB_FORGOTTEN, _without_the_last_job),
    "MapsAJobTwice": (rules.EACH_JOB_ONCE, _with_the_first_job_again),
    "ReturnsNothing": (rules.RETURNS_A_SCHEDULE, lambda p, good: None),
    "ReturnsAList": (rules.RETURNS_A_SCHEDULE, lambda p, good: list(good.assignments)),
    "InventsAJob": (
        rules.KNOWN_JOB,
        lambda p, good: Schedule.of(
            [*good.assignments, Assignment(p.n_jobs, 0, 1e6, 1e6 + 1)], good.wait_reasons
        ),
    ),
    "CountsFromTheEnd": (
        rules.KNOWN_JOB,
        each_row(lambda p, a: replace(a, job=-1) if a.job == p.n_jobs - 1 else a),
    ),
    "InventsAMachine": (rules.KNOWN_RESOURCE, each_row(lambda p, a: replace(a, resource=p.etc.n_resources))),
    "StartsInThePast": (
        rules.NOT_IN_THE_PAST,
        each_row(lambda p, a: replace(a, start_s=a.start_s - 1e4, completion_s=a.completion_s - 1e4)),
    ),
    "StartsAtNoNumber": (
        rules.NOT_IN_THE_PAST,
        each_row(lambda p, a: replace(a, start_s=nan, completion_s=nan)),
    ),
    "UnderestimatesCompletions": (
        rules.COMPLETION_AS_EXPECTED,
        each_row(lambda p, a: replace(a, completion_s=(a.start_s + a.completion_s) / 2)),
    ),
    "MapsAndLeavesWaiting": (
        rules.EACH_JOB_ONCE,
        lambda p, good: good._replace(wait_reasons=dict.fromkeys(range(p.n_jobs), "who knows")),
    ),
    "LeavesEverythingWaiting": (
        rules.MAKES_PROGRESS,
        lambda p, good: Schedule.of([], dict.fromkeys(range(p.n_jobs), "not today")),
    ),
    "PreemptsAStranger": (rules.PREEMPTS_RUNNING_RUNS, lambda p, good: good._replace(preemptions=(10**6,))),
    "WritesIntoTheProblem": (rules.PROBLEM_UNTOUCHED, _writing_into_the_problem),
}
"""By name: the rule that the scheduler breaks, and what it does to a good schedule."""


class UsesAMachineThatIsDown:
    """Looks at execution times only."""

    def schedule(self, problem: MappingProblem) -> Schedule:
        free_s = np.full(problem.ready_times.n_machines, problem.now_s)
        up = np.isfinite(problem.ready_times.machine_s)
        free_s[up] = problem.ready_times.machine_s[up]
        rows = []
        for i, etc_s in enumerate(problem.machine_etc_s):
            j = int(etc_s.argmin())
            rows.append(Assignment(i, j, free_s[j], free_s[j] + etc_s[j]))
            free_s[j] = rows[-1].completion_s
        return Schedule.of(rows)


class DoubleBooks:
    """Starts every job now on the machine that is fastest for it."""

    def schedule(self, problem: MappingProblem) -> Schedule:
        rows, waiting = [], {}
        for i, etc_s in enumerate(problem.machine_etc_s):
            time_s = np.where(np.isfinite(problem.ready_times.machine_s), etc_s, np.inf)
            j = int(time_s.argmin())
            if np.isfinite(time_s[j]):
                rows.append(Assignment(i, j, problem.now_s, problem.now_s + time_s[j]))
            else:
                waiting[i] = "nowhere to run"
        return Schedule.of(rows, waiting)


class UsesAClusterWhileAMemberIsBusy:
    """Puts a job on a cluster as soon as the first of its members is ready."""

    def schedule(self, problem: MappingProblem) -> Schedule:
        ready = problem.ready_times
        placed = {a.job: a for a in Mct().schedule(problem).assignments}
        for c, members in enumerate(ready.members):
            able = [i for i in placed if np.isfinite(problem.cluster_etc_s[i, c])]
            if able and np.isfinite(ready.cluster_s[c]):
                i, j = able[0], ready.n_machines + c
                start_s = min(ready.machine_s[k] for k in members)
                placed[i] = Assignment(i, j, start_s, start_s + problem.etc[i, j])
                break
        waiting = {i: "nowhere to run" for i in range(problem.n_jobs) if i not in placed}
        return Schedule.of(placed.values(), waiting)


class IgnoresWhatAMachineCanRun:
    """OLB that does not ask whether the machine can run the job."""

    def schedule(self, problem: MappingProblem) -> Schedule:
        free_s = problem.ready_times.machine_s.copy()
        if not np.isfinite(free_s).any():
            return Schedule.of([], dict.fromkeys(range(problem.n_jobs), "all machines are down"))
        rows = []
        for i in range(problem.n_jobs):
            j = int(free_s.argmin())
            rows.append(Assignment(i, j, free_s[j], free_s[j] + problem.etc[i, j]))
            free_s[j] += problem.etc[i, j] if np.isfinite(problem.etc[i, j]) else 1.0
        return Schedule.of(rows)


class DecidesByChance:
    """Takes the jobs in an order drawn from the global random source."""

    def schedule(self, problem: MappingProblem) -> Schedule:
        free_s = problem.ready_times.machine_s.copy()
        rows, waiting = [], {}
        for i in random.sample(range(problem.n_jobs), problem.n_jobs):
            completion_s = free_s + problem.machine_etc_s[i]
            j = int(completion_s.argmin())
            if np.isfinite(completion_s[j]):
                rows.append(Assignment(i, j, free_s[j], completion_s[j]))
                free_s[j] = completion_s[j]
            else:
                waiting[i] = "nowhere to run"
        return Schedule.of(rows, waiting)


class Raises:
    def schedule(self, problem: MappingProblem) -> Schedule:
        raise KeyError("the queue I hoped for")


class NeverReturns:
    def schedule(self, problem: MappingProblem) -> Schedule:
        while True:
            time.sleep(0.01)


class NeverReturnsAndCatchesEverything:
    def schedule(self, problem: MappingProblem) -> Schedule:
        end = time.monotonic() + 2.0
        while time.monotonic() < end:
            try:
                time.sleep(0.01)
            except BaseException:
                continue
        return Mct().schedule(problem)


class Exits:
    def schedule(self, problem: MappingProblem) -> Schedule:
        raise SystemExit(3)


class WorksOnlyOnce:
    """Loses track after its first decision."""

    def __init__(self) -> None:
        self._asked = False

    def schedule(self, problem: MappingProblem) -> Schedule:
        if self._asked:
            return _without_the_last_job(problem, Mct().schedule(problem))
        self._asked = True
        return Mct().schedule(problem)


class FailsOnLargeProblems:
    def schedule(self, problem: MappingProblem) -> Schedule:
        good = Pjs().schedule(problem)
        return _without_the_last_job(problem, good) if problem.n_jobs > 50 else good


class LooksForNodes:
    """Starts jobs on free nodes, whatever it is asked."""

    def __init__(self) -> None:
        self._rigid = Rigid()  # which may take longer than a decision may

    def schedule(self, problem: FreeNodesProblem) -> NodeSchedule:
        return self._rigid.schedule(problem)


class ForgetsToPlaceAJob:
    """Never passes the last job to its placer."""

    def schedule(self, problem: MappingProblem) -> Schedule:
        placer = MappingPlacer(problem)
        for i in range(problem.n_jobs - 1):
            placer.place(i, int((placer.machine_s + problem.machine_etc_s[i]).argmin()))
        return placer.schedule()


_SPOILT = spoilt(__name__, {name: spoil for name, (_, spoil) in SPOILT.items()})
globals().update(_SPOILT)

BROKEN_RULE: dict[type, str] = {
    **{kind: SPOILT[name][0] for name, kind in _SPOILT.items()},
    UsesAMachineThatIsDown: rules.RESOURCE_AVAILABLE,
    DoubleBooks: rules.NO_DOUBLE_BOOKING,
    UsesAClusterWhileAMemberIsBusy: rules.CLUSTER_MEMBERS_FREE,
    IgnoresWhatAMachineCanRun: rules.CLASS_CAN_RUN_THERE,
    DecidesByChance: rules.DETERMINISTIC,
    Raises: rules.RAISES_NOTHING,
    NeverReturns: rules.RETURNS_IN_TIME,
    NeverReturnsAndCatchesEverything: rules.RETURNS_IN_TIME,
    Exits: rules.RAISES_NOTHING,
    WorksOnlyOnce: rules.NO_JOB_FORGOTTEN,
    FailsOnLargeProblems: rules.NO_JOB_FORGOTTEN,
    LooksForNodes: rules.RIGHT_KIND,
    ForgetsToPlaceAJob: rules.NO_JOB_FORGOTTEN,
}
"""Each of them, and the rule by whose name it must be caught."""
