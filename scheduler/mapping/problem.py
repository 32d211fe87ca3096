"""The mapping problem: jobs, expected times, when machines become ready; and the check of a Schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scheduler import rules
from scheduler.mapping.etc import EtcMatrix, ReadyTimes, read_only
from scheduler.model import Assignments, Job, JobId, RunId, Schedule
from scheduler.ports import Scheduler
from scheduler.problem import LazyJobs, Running, SchedulingProblem
from scheduler.rules import Kind, Violation

TOLERANCE = 1e-9
"""Relative slack in comparing times, for sums taken in another order."""

SINGLE_RULES = (
    (rules.CLASS_CAN_RUN_THERE, "which cannot run its class"),
    (rules.RESOURCE_AVAILABLE, "which is not available"),
    (rules.NOT_IN_THE_PAST, "with a start before now"),
    (rules.NO_DOUBLE_BOOKING, "before that is ready"),
    (rules.COMPLETION_AS_EXPECTED, "with a completion that is not start + expected time"),
)
"""The rules about single assignments, each with words about an assignment that breaks it."""


class MappingProblem(SchedulingProblem):
    """On which machine or cluster does each job run, and in which order? The answer is a `Schedule`.

    * `etc`: expected seconds of each job on each resource.
    * `ready_times`: when each resource becomes ready. Computed on first access.
    * `running`: for schedulers that choose runs to preempt.

    See `SchedulingProblem` for `now_s`, `jobs`, `n_jobs` and `n_places`.
    """

    kind = Kind.MAPPING

    def __init__(
        self,
        now_s: float,
        jobs: Sequence[Job],
        etc: EtcMatrix,
        read_ready_times: Callable[[frozenset[RunId]], ReadyTimes],
        running: Mapping[RunId, Running] | None = None,
    ) -> None:
        super().__init__(now_s, jobs, running, etc.n_resources)
        self.etc = etc
        self._read_ready_times = read_ready_times

    @classmethod
    def from_matrix(
        cls,
        etc_s: ArrayLike,
        ready_s: ArrayLike | None = None,
        members: Iterable[Iterable[int]] = (),
        now_s: float = 0.0,
    ) -> MappingProblem:
        """A standalone problem: `etc_s` (n, m + clusters), `ready_s` (m,), machines of each cluster."""
        return cls.from_etc(EtcMatrix.from_dense(etc_s), ready_s, members, now_s)

    @classmethod
    def from_etc(
        cls,
        etc: EtcMatrix,
        ready_s: ArrayLike | None = None,
        members: Iterable[Iterable[int]] = (),
        now_s: float = 0.0,
    ) -> MappingProblem:
        """A standalone problem with expected times by class; otherwise as `from_matrix`."""
        clusters = tuple(tuple(machines) for machines in members)
        n_machines = etc.n_resources - len(clusters)
        ready = read_only(np.full(n_machines, now_s) if ready_s is None else ready_s)
        if ready.shape != (n_machines,):
            raise ValueError(f"{ready.shape[0]} ready times were given for {n_machines} machines")
        times = ReadyTimes(read_only(np.maximum(ready, now_s)), clusters)
        return cls(now_s, _JobsByClass(etc.job_class_of, now_s), etc, lambda _: times)

    @cached_property
    def ready_times(self) -> ReadyTimes:
        return self._read_ready_times(frozenset())

    def ready_times_without(self, victims: Iterable[RunId]) -> ReadyTimes:
        """Ready times as they would be if the running runs `victims` were preempted now."""
        victims = frozenset(victims)
        return self._read_ready_times(victims) if victims else self.ready_times

    def arrays(self) -> Mapping[str, NDArray[np.float64]]:
        found = {"etc": self.etc.by_class_s}
        if "ready_times" in self.__dict__:  # they have been computed
            found["ready_times"] = self.ready_times.machine_s
        return found

    def violation(self, answer: object) -> Violation | None:
        """The first rule that `answer` breaks, or None; the most basic first.

        O(a log a) for a assignments and the machines they use, plus O(n) for the jobs of the problem.
        """
        malformed = _malformed(answer)
        if malformed:
            return Violation(rules.RETURNS_A_SCHEDULE, None, malformed)
        assert isinstance(answer, Schedule)
        return next(_violations(self, answer), None)

    @property
    def machine_etc_s(self) -> NDArray[np.float64]:
        """Expected seconds on single machines, (n, m): a new array."""
        return self.etc.dense()[:, : self.ready_times.n_machines]

    @property
    def cluster_etc_s(self) -> NDArray[np.float64]:
        """Expected seconds in parallel on each cluster, (n, clusters): a new array."""
        return self.etc.dense()[:, self.ready_times.n_machines :]


MappingScheduler = Scheduler[MappingProblem, Schedule]


class _JobsByClass(LazyJobs):
    """Jobs of which only the class is given."""

    def __init__(self, class_of: NDArray[np.int64], arrival_s: float) -> None:
        self._class_of = class_of
        self._arrival_s = arrival_s

    def __len__(self) -> int:
        return len(self._class_of)

    def job_at(self, i: int) -> Job:
        return Job(JobId(i), f"class-{self._class_of[i]}", self._arrival_s)


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


def _violations(problem: MappingProblem, schedule: Schedule) -> Iterator[Violation]:
    """Yield violations; each check assumes that the checks before it found none."""
    rows, jobs = schedule.assignments, problem.jobs
    for i in (*rows.jobs.tolist(), *schedule.wait_reasons):
        if not 0 <= i < problem.n_jobs:
            message = f"job index {i} is named, but there are {problem.n_jobs} jobs"
            yield Violation(rules.KNOWN_JOB, None, message)
    for row in np.flatnonzero((rows.resources < 0) | (rows.resources >= problem.n_places)):
        job, j = jobs[int(rows.jobs[row])].id, int(rows.resources[row])
        message = f"job {job} is mapped to resource {j}, but there are {problem.n_places}"
        yield Violation(rules.KNOWN_RESOURCE, job, message)
    times_named = np.bincount(rows.jobs, minlength=problem.n_jobs)
    for i in np.flatnonzero(times_named > 1).tolist():
        job = jobs[i].id
        yield Violation(rules.EACH_JOB_ONCE, job, f"job {job} is mapped {times_named[i]} times")
    for i in schedule.wait_reasons:
        if times_named[i]:
            job = jobs[i].id
            yield Violation(rules.EACH_JOB_ONCE, job, f"job {job} is both mapped and left waiting")
        times_named[i] = 1
    for i in np.flatnonzero(times_named == 0).tolist():
        job = jobs[i].id
        message = f"job {job} is neither mapped nor left waiting with a reason"
        yield Violation(rules.NO_JOB_FORGOTTEN, job, message)
    for k, run in enumerate(schedule.preemptions):
        if run not in problem.running:
            message = f"run {run} is to be preempted, but is not running"
            yield Violation(rules.PREEMPTS_RUNNING_RUNS, None, message)
        if run in schedule.preemptions[:k]:
            job = problem.running[run].job.id
            message = f"run {run} of job {job} is preempted twice"
            yield Violation(rules.PREEMPTS_RUNNING_RUNS, job, message)
    if len(rows):
        ready = problem.ready_times_without(schedule.preemptions)
        yield from _misfits(problem, ready, rows)
        yield from _overlaps(problem, ready, rows)


def _misfits(problem: MappingProblem, ready: ReadyTimes, rows: Assignments) -> Iterator[Violation]:
    """Assignments that break one of `SINGLE_RULES`. A time that is not a number breaks each that reads it."""
    on_cluster, etc = rows.resources >= ready.n_machines, problem.etc
    ready_s = ready.machine_s[np.where(on_cluster, 0, rows.resources)]
    if on_cluster.any():
        ready_s[on_cluster] = ready.cluster_s[rows.resources[on_cluster] - ready.n_machines]
    etc_s = etc.by_class_s[etc.job_class_of[rows.jobs], etc.resource_class_of[rows.resources]]
    with np.errstate(invalid="ignore"):
        slack_s = TOLERANCE * np.maximum(1.0, np.abs(rows.start_s))
        expected_s = rows.start_s + etc_s
        kept = (
            etc_s < np.inf,
            ready_s < np.inf,
            rows.start_s >= problem.now_s - slack_s,
            rows.start_s >= ready_s - slack_s,
            np.abs(rows.completion_s - expected_s) <= TOLERANCE * np.maximum(1.0, np.abs(expected_s)),
        )
    for nth, row in np.argwhere(~np.array(kept)):
        rule, why = SINGLE_RULES[nth]
        job, j = problem.jobs[int(rows.jobs[row])].id, int(rows.resources[row])
        where = f"cluster {j - ready.n_machines}" if on_cluster[row] else f"machine {j}"
        times = (
            f"start {rows.start_s[row]:.12g} s, completion {rows.completion_s[row]:.12g} s, "
            f"ready {ready_s[row]:.12g} s, expected time {etc_s[row]:g} s"
        )
        if on_cluster[row] and rule == rules.NO_DOUBLE_BOOKING:
            rule = rules.CLUSTER_MEMBERS_FREE
        yield Violation(rule, job, f"job {job} is mapped to {where}, {why}; {times}")


def _overlaps(problem: MappingProblem, ready: ReadyTimes, rows: Assignments) -> Iterator[Violation]:
    """Two assignments of one schedule that hold one machine at the same time."""
    machines_of = [ready.machines_of(j) for j in rows.resources.tolist()]
    row_of = np.repeat(np.arange(len(rows)), [len(machines) for machines in machines_of])
    machine = np.array([j for machines in machines_of for j in machines], dtype=np.int64)
    order = np.lexsort((rows.completion_s[row_of], rows.start_s[row_of], machine))
    first, then = row_of[order[:-1]], row_of[order[1:]]
    same_machine = machine[order[:-1]] == machine[order[1:]]
    end_s, next_s = rows.completion_s[first], rows.start_s[then]
    for k in np.flatnonzero(same_machine & (next_s < end_s - TOLERANCE * np.maximum(1.0, end_s))):
        on_cluster = max(rows.resources[first[k]], rows.resources[then[k]]) >= ready.n_machines
        job, other = (problem.jobs[int(rows.jobs[row])].id for row in (then[k], first[k]))
        message = (
            f"job {job} starts on machine {machine[order[k]]} at {next_s[k]:.12g} s, while job {other} is "
            f"there until {end_s[k]:.12g} s"
        )
        yield Violation(rules.CLUSTER_MEMBERS_FREE if on_cluster else rules.NO_DOUBLE_BOOKING, job, message)
