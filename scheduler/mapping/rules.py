"""The check of a Schedule, before any of it is carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from scheduler import rules
from scheduler.mapping.etc import EtcMatrix, ReadyTimes
from scheduler.model import Assignments, RunId, Schedule
from scheduler.problem import SchedulingProblem
from scheduler.rules import Violation

TOLERANCE = 1e-9
"""Relative slack in comparing times, for sums taken in another order."""


ReadyTimesWithout = Callable[[Iterable[RunId]], ReadyTimes]
"""Ready times as they would be if these running runs were preempted now."""


def first_violation(
    problem: SchedulingProblem, etc: EtcMatrix, ready_without: ReadyTimesWithout, answer: object
) -> Violation | None:
    """The first rule that `answer` breaks as an answer to a mapping problem, or None; the most basic first.

    O(a log a) for a assignments and the machines they use, plus O(n) for the jobs of the problem.
    """
    malformed = _malformed(answer)
    if malformed:
        return Violation(rules.RETURNS_A_SCHEDULE, None, malformed)
    assert isinstance(answer, Schedule)
    return (
        _unknown(problem, answer)
        or _not_once(problem, answer)
        or _bad_victim(problem, answer.preemptions)
        or _unfit(problem, etc, ready_without, answer)
    )


def _malformed(schedule: object) -> str | None:
    if not isinstance(schedule, Schedule):
        return f"schedule(problem) returned {_kind(schedule)}, expected a Schedule"
    columns = schedule.assignments
    if not isinstance(columns, Assignments):
        return f"Schedule.assignments is {_kind(columns)}, expected Assignments (see Schedule.of)"
    for name, kind in (("jobs", "i"), ("resources", "i"), ("start_s", "f"), ("completion_s", "f")):
        column = getattr(columns, name)
        if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype.kind != kind:
            wanted = "integers" if kind == "i" else "floats"
            return f"Assignments.{name} is {_kind(column)}, expected a one-dimensional array of {wanted}"
        if len(column) != len(columns.jobs):
            return f"Assignments.{name} has {len(column)} rows where jobs has {len(columns.jobs)}"
    if not hasattr(schedule.wait_reasons, "items"):
        return f"Schedule.wait_reasons is {_kind(schedule.wait_reasons)}, expected a mapping of job to reason"
    if not all(_is_index(i) for i in schedule.wait_reasons):
        return "Schedule.wait_reasons has a key that is not the index of a job"
    if not isinstance(schedule.preemptions, tuple) or not all(map(_is_index, schedule.preemptions)):
        return "Schedule.preemptions is not a tuple of run ids"
    return None


def _kind(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


def _is_index(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _unknown(problem: SchedulingProblem, schedule: Schedule) -> Violation | None:
    for i in (*schedule.assignments.jobs.tolist(), *schedule.wait_reasons):
        if not 0 <= i < problem.n_jobs:
            return Violation(
                rules.KNOWN_JOB, None, f"job index {i} is named, but there are {problem.n_jobs} jobs"
            )
    resources = schedule.assignments.resources
    outside = (resources < 0) | (resources >= problem.n_places)
    if outside.any():
        row = int(outside.argmax())
        job, j = problem.jobs[int(schedule.assignments.jobs[row])].id, int(resources[row])
        message = f"job {job} is mapped to resource {j}, but there are {problem.n_places}"
        return Violation(rules.KNOWN_RESOURCE, job, message)
    return None


def _not_once(problem: SchedulingProblem, schedule: Schedule) -> Violation | None:
    times_named = np.bincount(schedule.assignments.jobs, minlength=problem.n_jobs)
    repeated = times_named > 1
    if repeated.any():
        i = int(repeated.argmax())
        job = problem.jobs[i].id
        return Violation(rules.EACH_JOB_ONCE, job, f"job {job} is mapped {times_named[i]} times")
    for i in schedule.wait_reasons:
        if times_named[i]:
            job = problem.jobs[i].id
            return Violation(rules.EACH_JOB_ONCE, job, f"job {job} is both mapped and left waiting")
        times_named[i] = 1
    if not times_named.all():
        job = problem.jobs[int(times_named.argmin())].id
        message = f"job {job} is neither mapped nor left waiting with a reason"
        return Violation(rules.NO_JOB_FORGOTTEN, job, message)
    return None


def _bad_victim(problem: SchedulingProblem, victims: tuple[RunId, ...]) -> Violation | None:
    for k, run in enumerate(victims):
        if run not in problem.running:
            message = f"run {run} is to be preempted, but is not running"
            return Violation(rules.PREEMPTS_RUNNING_RUNS, None, message)
        if run in victims[:k]:
            job = problem.running[run].job.id
            return Violation(rules.PREEMPTS_RUNNING_RUNS, job, f"run {run} of job {job} is preempted twice")
    return None


def _unfit(
    problem: SchedulingProblem, etc: EtcMatrix, ready_without: ReadyTimesWithout, schedule: Schedule
) -> Violation | None:
    """A broken rule about single assignments, or about those that share a machine."""
    rows = schedule.assignments
    if not len(rows):
        return None
    ready = ready_without(schedule.preemptions)
    ready_s = _ready_s(ready, rows.resources)
    etc_s = etc.by_class_s[etc.job_class_of[rows.jobs], etc.resource_class_of[rows.resources]]
    kept = _kept(rows, ready_s, etc_s, problem.now_s)
    if not kept.all():
        nth, row = divmod(int(kept.argmin()), len(rows))
        rule, why = SINGLE_RULES[nth]
        job, j = problem.jobs[int(rows.jobs[row])].id, int(rows.resources[row])
        on_cluster = j >= ready.n_machines
        where = f"cluster {j - ready.n_machines}" if on_cluster else f"machine {j}"
        times = (
            f"start {rows.start_s[row]:.12g} s, completion {rows.completion_s[row]:.12g} s, "
            f"ready {ready_s[row]:.12g} s, expected time {etc_s[row]:g} s"
        )
        if on_cluster and rule == rules.NO_DOUBLE_BOOKING:
            rule = rules.CLUSTER_MEMBERS_FREE
        return Violation(rule, job, f"job {job} is mapped to {where}, {why}; {times}")
    return _overlap(problem, ready, rows)


SINGLE_RULES = (
    (rules.CLASS_CAN_RUN_THERE, "which cannot run its class"),
    (rules.RESOURCE_AVAILABLE, "which is not available"),
    (rules.NOT_IN_THE_PAST, "with a start before now"),
    (rules.NO_DOUBLE_BOOKING, "before that is ready"),
    (rules.COMPLETION_AS_EXPECTED, "with a completion that is not start + expected time"),
)
"""The rules about single assignments, each with words about an assignment that breaks it."""


def _kept(
    rows: Assignments, ready_s: NDArray[np.float64], etc_s: NDArray[np.float64], now_s: float
) -> NDArray[np.bool_]:
    """(rules, assignments): whether each assignment keeps each of `SINGLE_RULES`, in that order. A time that
    is not a number breaks each rule that reads it."""
    with np.errstate(invalid="ignore"):
        slack_s = TOLERANCE * np.maximum(1.0, np.abs(rows.start_s))
        expected_s = rows.start_s + etc_s
        off_s = np.abs(rows.completion_s - expected_s)
        kept = (
            etc_s < np.inf,
            ready_s < np.inf,
            rows.start_s >= now_s - slack_s,
            rows.start_s >= ready_s - slack_s,
            off_s <= TOLERANCE * np.maximum(1.0, np.abs(expected_s)),
        )
    return np.array(kept)


def _ready_s(ready: ReadyTimes, resources: NDArray[np.int64]) -> NDArray[np.float64]:
    """Ready time of each of `resources`; clusters are looked at only where there are any among them."""
    on_cluster = resources >= ready.n_machines
    ready_s = ready.machine_s[np.where(on_cluster, 0, resources)]
    if on_cluster.any():
        ready_s[on_cluster] = ready.cluster_s[resources[on_cluster] - ready.n_machines]
    return ready_s


def _overlap(problem: SchedulingProblem, ready: ReadyTimes, rows: Assignments) -> Violation | None:
    """Two assignments of one schedule that hold one machine at the same time."""
    machines_of = [ready.machines_of(j) for j in rows.resources.tolist()]
    row_of = np.repeat(np.arange(len(rows)), [len(machines) for machines in machines_of])
    machine = np.array([j for machines in machines_of for j in machines], dtype=np.int64)
    order = np.lexsort((rows.completion_s[row_of], rows.start_s[row_of], machine))
    first, then = row_of[order[:-1]], row_of[order[1:]]
    same_machine = machine[order[:-1]] == machine[order[1:]]
    end_s, next_s = rows.completion_s[first], rows.start_s[then]
    clash = same_machine & (next_s < end_s - TOLERANCE * np.maximum(1.0, end_s))
    if clash.any():
        k = int(clash.argmax())
        a, b = int(first[k]), int(then[k])
        on_cluster = max(rows.resources[a], rows.resources[b]) >= ready.n_machines
        job, other = problem.jobs[int(rows.jobs[b])].id, problem.jobs[int(rows.jobs[a])].id
        return Violation(
            rules.CLUSTER_MEMBERS_FREE if on_cluster else rules.NO_DOUBLE_BOOKING,
            job,
            f"job {job} starts on machine {machine[order[k]]} at {next_s[k]:.12g} s, while job {other} is "
            f"there until {end_s[k]:.12g} s",
        )
    return None
