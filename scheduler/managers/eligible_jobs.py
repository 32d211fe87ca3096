"""A resource manager whose queue has only the jobs that are eligible to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from scheduler.managers.eligibility import Eligibility
from scheduler.model import DispatchOrder, Job, JobId, RunId
from scheduler.ports import (
    Act,
    Clock,
    JobActedOn,
    JobArrived,
    Notice,
    RunEnded,
    RunLost,
    RunPreempted,
    RunReleased,
    SuspendingDispatcher,
    TimePassed,
)
from scheduler.resource_manager import Manager, ManagerDecorator


def never(why: str) -> str:
    """Why a job is given up that nothing makes eligible any more."""
    return f"it never became eligible to run: {why}"


def cancelled(why: str) -> str:
    """Why a job does not run that was cancelled while it waited, maybe since it was not eligible."""
    return f"it was cancelled while it waited{f' ({why})' if why else ''}"


CANCELLED = "it was cancelled while it ran"
EXPIRED = "it could not end before its deadline any more (DEADLINE)"


class TellingDispatcher(SuspendingDispatcher, Protocol):
    """Tells users, too, what becomes of jobs that wait."""

    def ineligible(self, job: JobId, why: str) -> None:
        """A job has arrived, or is held, and is not eligible."""

    def eligible(self, job: JobId, waited_for: str) -> None:
        """A job that was not eligible is so now."""


class EligibleJobs(ManagerDecorator):
    """Keeps jobs from a manager until they are eligible; they arrive there then. A job that is held leaves
    the manager's queue, as does one that is cancelled; the run of a cancelled job is stopped.

    The manager gives its orders to this object, which learns from them which runs are of which jobs.
    """

    def __init__(
        self,
        eligibility: Eligibility,
        clock: Clock,
        orders: TellingDispatcher,
        make: Callable[[SuspendingDispatcher], Manager],
    ) -> None:
        self._eligibility, self._clock, self._orders = eligibility, clock, orders
        self._jobs: dict[JobId, Job] = {}
        """The jobs that have arrived and are not over."""
        self._job_of: dict[RunId, JobId] = {}
        self._run_of: dict[JobId, RunId] = {}
        self._cancelled, self._ending = set[RunId](), set[RunId]()
        self._too_late = set[JobId]()
        """Those that ran when they would have expired."""
        self._manager = make(self)

    @property
    def wakes_at_s(self) -> float | None:  # type: ignore[override]
        theirs_s, next_s = self._manager.wakes_at_s, self._eligibility.next_s
        return min(next_s, theirs_s) if theirs_s is not None else next_s if next_s < float("inf") else None

    def why_waiting(self) -> Mapping[JobId, str]:
        return {
            **{JobId(job): why for job, why in self._eligibility.waiting().items()},
            **super().why_waiting(),
        }

    # -- orders of the manager ------------------------------------------------------------------------------

    def dispatch(self, order: DispatchOrder) -> None:
        job = order.job.id
        self._job_of[order.run], self._run_of[job] = job, order.run
        self._eligibility.begin(job, self._clock.now_s)
        self._orders.dispatch(order)

    def preempt(self, run: RunId) -> None:
        self._orders.preempt(run)

    def suspend(self, run: RunId) -> None:
        self._orders.suspend(run)

    def resume(self, run: RunId) -> None:
        self._orders.resume(run)

    def give_up(self, job: JobId, why: str) -> None:
        self._over(job, completed=False)
        self._orders.give_up(job, why)

    # -- notices --------------------------------------------------------------------------------------------

    def handle(self, notice: Notice) -> str | None:
        now_s, refused = self._clock.now_s, None
        match notice:
            case JobArrived(job):
                self._jobs[job.id] = job
                if why := self._eligibility.arrive(job.id, now_s):
                    self._orders.ineligible(job.id, why)
                else:
                    refused = self._join(job)
            case JobActedOn(job_id, act):
                self._act(job_id, act)
            case RunPreempted(run) if run in self._cancelled:
                self._cancelled.discard(run)
                self._manager.handle(RunEnded(run, now_s, failed=True))
                self._over(self._ended(run), completed=False)
            case RunReleased(run):
                self._ending.add(run)  # it is too late to stop it
                self._manager.handle(notice)
            case RunEnded(run, _, failed):
                self._ending.discard(run)
                self._manager.handle(notice)
                self._over(self._ended(run), completed=not failed and not notice.exit_code)
            case RunPreempted(run) | RunLost(run):
                stopped = self._ended(run)
                self._manager.handle(notice)
                if stopped in self._too_late:
                    self._act(stopped, "expire")
            case TimePassed():
                self._eligibility.time_passed(now_s)
                self._manager.handle(notice)
            case _:
                return self._manager.handle(notice)
        self._admit()
        return refused

    def run_round(self) -> None:
        self._manager.run_round()
        self._admit()

    def dismiss(self) -> bool:
        dismissed = self._eligibility.dismiss()
        for job, why in dismissed.items():
            self.give_up(JobId(job), never(why))
        return bool(dismissed) or super().dismiss()

    # -- jobs -----------------------------------------------------------------------------------------------

    def _act(self, job: JobId, act: Act) -> None:
        run = self._run_of.get(job)
        if run is not None:
            if act == "expire":
                self._too_late.add(job)
            if act not in ("cancel", "requeue") or run in self._ending | self._cancelled:
                return
            self._orders.preempt(run)
            if act == "cancel":
                self._cancelled.add(run)
                self._orders.give_up(job, CANCELLED)
        elif act != "requeue" and job in self._jobs:
            why = self._eligibility.why_not(job)
            if self._eligibility.act(job, act, self._clock.now_s):
                self._manager.handle(JobActedOn(job, act))
            if act == "cancel":
                self.give_up(job, cancelled(why))
            elif act == "expire":
                self.give_up(job, EXPIRED)
            elif act == "hold" and not why:
                self._orders.ineligible(job, self._eligibility.why_not(job))

    def _admit(self) -> None:
        """Let the jobs arrive at the manager that have become eligible, of which some may be refused."""
        while eligible := self._eligibility.eligible():
            for number, waited_for in eligible:
                job = self._jobs[JobId(number)]._replace(arrival_s=self._clock.now_s)
                self._orders.eligible(job.id, waited_for)
                if (refused := self._join(job)) is not None:
                    self._orders.give_up(job.id, refused)

    def _join(self, job: Job) -> str | None:
        refused = self._manager.handle(JobArrived(job))
        if refused is not None:
            self._over(job.id, completed=False)
        return refused

    def _ended(self, run: RunId) -> JobId | None:
        job = self._job_of.pop(run, None)
        if job is not None:
            self._run_of.pop(job, None)
        return job

    def _over(self, job: JobId | None, completed: bool) -> None:
        if job is not None and self._jobs.pop(job, None) is not None:
            self._eligibility.end(job, self._clock.now_s, completed)
