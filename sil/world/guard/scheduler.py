"""The guard around a scheduler under test: its decisions are noted, checked for determinism, and charged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from typing import Any

from scheduler.model import Answer, JobId, Schedule
from scheduler.ports import Clock, Scheduler
from scheduler.problem import LazyJobs, SchedulingProblem
from scheduler.rules import DETERMINISTIC, first_difference
from scheduler.wait_reasons import all_in_detail
from sil.trace.recorder import TraceRecorder
from sil.world.guard.asking import Respondent, TimedScheduler
from sil.world.guard.decision_cost import Charge
from sil.world.guard.faults import SchedulerFault, one_line

Timing = tuple[float, int, int, int, float, float, float]
"""One measured decision: the values of MEASURED_SCHEMA."""


@dataclass(frozen=True, eq=False)
class Guard:
    """A stopwatch and a time limit.

    Measurements go to `note`; CPU time is read from `cpu_time`, or not measured (NaN). `charge` charges wall
    time to simulated time. `decision_log` records mappings and wait reasons that have changed.
    """

    clock: Clock
    limit_s: float
    note: Callable[[Timing], None] = lambda timing: None
    charge: Charge | None = None
    decision_log: TraceRecorder | None = None
    cpu_time: Callable[[], float] | None = process_time

    def timed(self, scheduler: Scheduler, is_watched: bool = False) -> TimedScheduler:
        """A scheduler in this process, under this time limit."""
        return TimedScheduler(scheduler, self.clock, self.limit_s, self.cpu_time, is_watched=is_watched)


class GuardedScheduler:
    """A scheduler whose decisions are noted, and whose faults end its run with a report.

    `witness`, a second and untimed instance, must make the same decisions (the determinism check). Raises
    SchedulerFault if the scheduler breaks a rule of conduct, or decides differently from the witness.
    """

    def __init__(self, respondent: Respondent, guard: Guard, witness: Respondent | None = None) -> None:
        self._respondent = respondent
        self._witness = witness
        self._clock = guard.clock
        self._note = guard.note
        self._charge = guard.charge
        self._decision_log = guard.decision_log
        self._logged: dict[JobId, str | tuple[int, float]] = {}
        """The last wait reason of each job, or its resource and start time."""

    def schedule(self, problem: SchedulingProblem) -> Any:
        now_s, n_jobs = self._clock.now_s, problem.n_jobs
        schedule, n_decisions, wall_s, cpu_s, gc_s = self._respondent.decide(problem)
        self._note((now_s, n_jobs, problem.n_places, n_decisions, wall_s, cpu_s, gc_s))
        if self._witness is not None:
            self._compare(problem, schedule, self._witness.decide(problem).answer)
        if self._decision_log is not None:
            self._log(problem, schedule, now_s, self._decision_log)
        if self._charge is not None:
            self._charge(n_jobs, problem.n_places, wall_s - gc_s)
        return schedule

    def load_for_requests(self) -> None:
        """See `scheduler.ports.Scheduler`. Raises SchedulerFault."""
        for respondent in (self._respondent, self._witness):
            if respondent is not None:
                respondent.load_for_requests()

    def _log(self, problem: SchedulingProblem, schedule: Answer, now_s: float, log: TraceRecorder) -> None:
        if problem.violation(schedule):
            return  # the manager will reject it
        logged, lines = self._logged, dict[str, str]()
        jobs = problem.jobs
        ids = jobs.ids if isinstance(jobs, LazyJobs) else [job.id for job in jobs]
        for i, text in all_in_detail(schedule.wait_reasons):
            # Many jobs have the same; other classes of texts are the scheduler's own code.
            reason = (lines.get(text) if type(text) is str else None) or one_line(text)
            if type(text) is str:
                lines[text] = reason
            if logged.get(ids[i]) != reason:
                logged[ids[i]] = reason
                log.note_reason(now_s, ids[i], reason)
        for assignment in schedule.assignments if isinstance(schedule, Schedule) else ():
            job, start = problem.jobs[assignment.job].id, (assignment.resource, assignment.start_s)
            if logged.get(job) != start:
                logged[job] = start
                log.note_mapping(now_s, job, *start, assignment.completion_s - assignment.start_s)

    def _compare(self, problem: SchedulingProblem, schedule: Answer, again: Answer) -> None:
        if problem.violation(schedule):
            return  # the manager will reject it
        if broken := problem.violation(again):
            message = (
                f"for the same problem, a second instance broke the rule {broken.rule}: {broken.message}"
            )
            raise SchedulerFault(DETERMINISTIC, message, self._clock.now_s, broken.job)
        difference = first_difference(schedule, again)
        if difference is not None:
            job = problem.jobs[difference].id if 0 <= difference < problem.n_jobs else None
            where = "when to ask again, or what to preempt" if job is None else f"first for job {job}"
            message = f"for the same problem, two instances decided differently, {where}"
            raise SchedulerFault(DETERMINISTIC, message, self._clock.now_s, job)


class CheckedScheduler(GuardedScheduler):
    """Checks its schedules, for callers without a resource manager. Messages begin with `context`, in which
    {now_s} is the time of the problem."""

    def __init__(self, respondent: Respondent, guard: Guard, context: str = "") -> None:
        super().__init__(respondent, guard)
        self._context = context

    def schedule(self, problem: SchedulingProblem) -> Any:
        schedule = super().schedule(problem)
        violation = problem.violation(schedule)
        if violation is not None:
            context = self._context.format(now_s=problem.now_s)
            raise SchedulerFault.of(violation, self._clock.now_s, context)
        return schedule
