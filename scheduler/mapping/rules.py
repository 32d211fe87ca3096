"""The rules that every schedule must keep, checked before any of it is carried out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from scheduler.model import NO_ASSIGNMENTS, Assignments, JobId, Placement, RunId, Schedule
from scheduler.node_set import NodeSet
from scheduler.problem import ReadyTimes, SchedulingProblem

RETURNS_A_SCHEDULE = "returns-a-schedule"
KNOWN_JOB = "known-job"
KNOWN_RESOURCE = "known-resource"
EACH_JOB_ONCE = "each-job-once"
NO_JOB_FORGOTTEN = "no-job-forgotten"
CLASS_CAN_RUN_THERE = "class-can-run-there"
RESOURCE_AVAILABLE = "resource-available"
NOT_IN_THE_PAST = "not-in-the-past"
NO_DOUBLE_BOOKING = "no-double-booking"
CLUSTER_MEMBERS_FREE = "cluster-members-free"
COMPLETION_AS_EXPECTED = "completion-as-expected"
PREEMPTS_RUNNING_RUNS = "preempts-running-runs"

KNOWN_NODES = "known-nodes"
ONE_TASK_ON_EACH_NODE = "one-task-on-each-node"
NODES_FREE = "nodes-free"

RAISES_NOTHING = "raises-nothing"
RETURNS_IN_TIME = "returns-in-time"
DETERMINISTIC = "deterministic"
PROBLEM_UNTOUCHED = "problem-untouched"
MAKES_PROGRESS = "makes-progress"

RULES_OF_A_SCHEDULE = {
    RETURNS_A_SCHEDULE: "schedule(problem) returns a Schedule with columns of the right shape and type",
    KNOWN_JOB: "every job that is named is one of the problem's jobs",
    KNOWN_RESOURCE: "every resource that is named is one of the problem's machines or clusters",
    EACH_JOB_ONCE: "no job is mapped twice, or mapped and left waiting",
    NO_JOB_FORGOTTEN: "every job is mapped, or left waiting with a reason",
    CLASS_CAN_RUN_THERE: "no job is mapped to a resource that cannot run its class",
    RESOURCE_AVAILABLE: "no job is mapped to a machine that is down or a cluster that is not available",
    NOT_IN_THE_PAST: "no job starts before now",
    NO_DOUBLE_BOOKING: "a machine has one run at a time, and none before it is ready",
    CLUSTER_MEMBERS_FREE: "a cluster starts only when all its members are free, and keeps them",
    COMPLETION_AS_EXPECTED: "completion is start plus the expected time",
    PREEMPTS_RUNNING_RUNS: "only runs that go on now are preempted, each once",
}

RULES_OF_PLACEMENTS = {
    KNOWN_NODES: "every node that is named is one of the cluster's",
    ONE_TASK_ON_EACH_NODE: "a job gets as many different nodes as it has tasks",
    NODES_FREE: "a rigid job gets nodes that are free, and each node goes to one job",
}
"""Of schedules that start jobs on nodes, beside those that name no resource."""

RULES_OF_CONDUCT = {
    RAISES_NOTHING: "schedule(problem) raises no exception",
    RETURNS_IN_TIME: "schedule(problem) returns within the time that its caller allows",
    DETERMINISTIC: "the same problems in the same order lead to the same schedules",
    PROBLEM_UNTOUCHED: "the problem is read and never changed",
    MAKES_PROGRESS: "jobs do not wait, or start over, for ever while they could run",
}

TOLERANCE = 1e-9
"""Relative slack in comparing times, for sums taken in another order."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule: its name, the job concerned (if it is one job), and one sentence."""

    rule: str
    job: JobId | None
    message: str


class ScheduleRejected(Exception):
    """A scheduler returned a schedule that breaks a rule."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(f"{violation.rule}: {violation.message}")
        self.violation = violation


def what_is_not_placing(schedule: object, now_s: float) -> str | None:
    """What is wrong with an answer as one that starts jobs on nodes, or None."""
    if not isinstance(schedule, Schedule):
        return f"schedule(problem) returned {type(schedule).__name__}, expected a Schedule"
    assignments, _, preemptions, _, again_s = schedule
    if assignments is not NO_ASSIGNMENTS and len(assignments):
        return "jobs were mapped to resources (assignments); on nodes they start (placements)"
    if preemptions:
        return "runs were to be preempted (preemptions); on nodes they run to their end"
    if again_s is not None and not (isinstance(again_s, (int, float)) and now_s < again_s < inf):
        return f"it wants to be asked again at {again_s} s, which is not after now, {now_s:.12g} s"
    return None


def what_is_no_placement(placement: object) -> str | None:
    """What is wrong with a placement by its types, or None."""
    if not isinstance(placement, Placement):
        return f"a placement is of type {type(placement).__name__}, expected a Placement"
    if not isinstance(placement.completion_s, Real):
        kind = type(placement.completion_s).__name__
        return f"completion_s of a placement is of type {kind}, expected a number"
    return None


def first_violation(problem: SchedulingProblem, schedule: object) -> Violation | None:
    """The first rule that `schedule` breaks as an answer to `problem`, or None.

    O(a log a) for a assignments and the machines they use, plus O(n) for the jobs of the problem.
    """
    return next(violations(problem, schedule), None)


def violations(problem: SchedulingProblem, schedule: object) -> Iterator[Violation]:
    """Broken rules, in the order of RULES_OF_A_SCHEDULE; a malformed schedule ends the search."""
    malformed = _malformed(schedule)
    if malformed:
        yield Violation(RETURNS_A_SCHEDULE, None, malformed)
        return
    assert isinstance(schedule, Schedule)
    unknown = _unknown(problem, schedule)
    if unknown:
        yield unknown
        return
    yield from _each_job_once(problem, schedule)
    bad_victim = _bad_victim(problem, schedule.preemptions)
    if bad_victim:
        yield bad_victim
        return
    yield from _fits(problem, schedule)


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
    named = [*schedule.assignments.jobs.tolist(), *schedule.wait_reasons]
    for i in named:
        if not 0 <= i < problem.n_jobs:
            return Violation(KNOWN_JOB, None, f"job index {i} is named, but there are {problem.n_jobs} jobs")
    resources = schedule.assignments.resources
    outside = np.flatnonzero((resources < 0) | (resources >= problem.etc.n_resources))
    if len(outside):
        job = problem.jobs[int(schedule.assignments.jobs[outside[0]])].id
        j = int(resources[outside[0]])
        return Violation(
            KNOWN_RESOURCE,
            job,
            f"job {job} is mapped to resource {j}, but there are {problem.etc.n_resources}",
        )
    return None


def _each_job_once(problem: SchedulingProblem, schedule: Schedule) -> Iterator[Violation]:
    times_named = np.bincount(schedule.assignments.jobs, minlength=problem.n_jobs)
    for i in np.flatnonzero(times_named > 1)[:1]:
        job = problem.jobs[i].id
        yield Violation(EACH_JOB_ONCE, job, f"job {job} is mapped {times_named[i]} times")
    for i in schedule.wait_reasons:
        if times_named[i]:
            job = problem.jobs[i].id
            yield Violation(EACH_JOB_ONCE, job, f"job {job} is both mapped and left waiting")
        times_named[i] += 1
    for i in np.flatnonzero(times_named == 0)[:1]:
        job = problem.jobs[i].id
        yield Violation(NO_JOB_FORGOTTEN, job, f"job {job} is neither mapped nor left waiting with a reason")


def _bad_victim(problem: SchedulingProblem, victims: tuple[RunId, ...]) -> Violation | None:
    for k, run in enumerate(victims):
        if run not in problem.running:
            return Violation(PREEMPTS_RUNNING_RUNS, None, f"run {run} is to be preempted, but is not running")
        if run in victims[:k]:
            job = problem.running[run].job.id
            return Violation(PREEMPTS_RUNNING_RUNS, job, f"run {run} of job {job} is preempted twice")
    return None


def _fits(problem: SchedulingProblem, schedule: Schedule) -> Iterator[Violation]:
    """Rules about single assignments, then about those that share a machine."""
    rows = schedule.assignments
    if not len(rows):
        return
    ready = problem.ready_times_without(schedule.preemptions) if schedule.preemptions else problem.ready_times
    ready_s = _ready_s(ready, rows.resources)
    etc_s = problem.etc.by_class_s[
        problem.etc.job_class_of[rows.jobs], problem.etc.resource_class_of[rows.resources]
    ]
    for rule, kept, why in _single_rules(rows, ready_s, etc_s, problem.now_s):
        for row in np.flatnonzero(~kept)[:1]:
            yield _about(problem, ready, rule, row, rows, f"{why}; {_times(rows, row, ready_s, etc_s)}")
            return
    yield from _overlaps(problem, ready, rows)


def _single_rules(
    rows: Assignments, ready_s: NDArray[np.float64], etc_s: NDArray[np.float64], now_s: float
) -> list[tuple[str, NDArray[np.bool_], str]]:
    """(rule, which assignments keep it, what those that do not are). Times that are no numbers keep none."""
    with np.errstate(invalid="ignore"):
        slack_s = TOLERANCE * np.maximum(1.0, np.abs(rows.start_s))
        expected_s = rows.start_s + etc_s
        off_s = np.abs(rows.completion_s - expected_s)
        return [
            (CLASS_CAN_RUN_THERE, np.isfinite(etc_s), "which cannot run its class"),
            (RESOURCE_AVAILABLE, np.isfinite(ready_s), "which is not available"),
            (NOT_IN_THE_PAST, rows.start_s >= now_s - slack_s, "with a start before now"),
            (NO_DOUBLE_BOOKING, rows.start_s >= ready_s - slack_s, "before that is ready"),
            (
                COMPLETION_AS_EXPECTED,
                off_s <= TOLERANCE * np.maximum(1.0, np.abs(expected_s)),
                "with a completion that is not start + expected time",
            ),
        ]


def _ready_s(ready: ReadyTimes, resources: NDArray[np.int64]) -> NDArray[np.float64]:
    """Ready time of each of `resources`; clusters are looked at only where there are any among them."""
    on_cluster = resources >= ready.n_machines
    ready_s = ready.machine_s[np.where(on_cluster, 0, resources)]
    if on_cluster.any():
        ready_s[on_cluster] = ready.cluster_s[resources[on_cluster] - ready.n_machines]
    return ready_s


def _times(rows: Assignments, row: int, ready_s: NDArray[np.float64], etc_s: NDArray[np.float64]) -> str:
    return (
        f"start {rows.start_s[row]:.12g} s, completion {rows.completion_s[row]:.12g} s, "
        f"ready {ready_s[row]:.12g} s, expected time {etc_s[row]:g} s"
    )


def _about(
    problem: SchedulingProblem, ready: ReadyTimes, rule: str, row: int, rows: Assignments, why: str
) -> Violation:
    job, j = problem.jobs[int(rows.jobs[row])].id, int(rows.resources[row])
    on_cluster = j >= ready.n_machines
    if rule == NO_DOUBLE_BOOKING and on_cluster:
        rule = CLUSTER_MEMBERS_FREE
    where = f"cluster {j - ready.n_machines}" if on_cluster else f"machine {j}"
    return Violation(rule, job, f"job {job} is mapped to {where}, {why}")


def _overlaps(problem: SchedulingProblem, ready: ReadyTimes, rows: Assignments) -> Iterator[Violation]:
    """Two assignments of one schedule that hold one machine at the same time."""
    machines_of = [ready.machines_of(j) for j in rows.resources.tolist()]
    row_of = np.repeat(np.arange(len(rows)), [len(machines) for machines in machines_of])
    machine = np.array([j for machines in machines_of for j in machines], dtype=np.int64)
    order = np.lexsort((rows.completion_s[row_of], rows.start_s[row_of], machine))
    first, then = row_of[order[:-1]], row_of[order[1:]]
    same_machine = machine[order[:-1]] == machine[order[1:]]
    end_s, next_s = rows.completion_s[first], rows.start_s[then]
    clash = np.flatnonzero(same_machine & (next_s < end_s - TOLERANCE * np.maximum(1.0, end_s)))
    for k in clash[:1]:
        a, b = int(first[k]), int(then[k])
        on_cluster = max(rows.resources[a], rows.resources[b]) >= ready.n_machines
        job, other = problem.jobs[int(rows.jobs[b])].id, problem.jobs[int(rows.jobs[a])].id
        yield Violation(
            CLUSTER_MEMBERS_FREE if on_cluster else NO_DOUBLE_BOOKING,
            job,
            f"job {job} starts on machine {machine[order[k]]} at {next_s[k]:.12g} s, while job {other} is "
            f"there until {end_s[k]:.12g} s",
        )


def first_difference(a: Schedule, b: Schedule) -> int | None:
    """Index of the first job on which two schedules differ, -1 if only preemptions do, None if nothing."""
    columns = [
        (a.assignments.jobs, b.assignments.jobs),
        (a.assignments.resources, b.assignments.resources),
        (a.assignments.start_s, b.assignments.start_s),
        (a.assignments.completion_s, b.assignments.completion_s),
    ]
    shared = min(len(a.assignments.jobs), len(b.assignments.jobs))
    differs = np.zeros(shared, dtype=bool)
    for left, right in columns:
        differs |= left[:shared] != right[:shared]
    if differs.any():
        return int(a.assignments.jobs[differs.argmax()])
    longer = max(a.assignments.jobs, b.assignments.jobs, key=len)
    if len(longer) > shared:
        return int(longer[shared])
    parted = sorted(set(a.wait_reasons) ^ set(b.wait_reasons))
    if parted:
        return int(parted[0])
    for one, other in zip(a.placements, b.placements, strict=False):
        # Nodes may be told as an array, too.
        if one[::2] != other[::2] or NodeSet.of(one.nodes) != NodeSet.of(other.nodes):
            return one.job
    return -1 if a.preemptions != b.preemptions else None
