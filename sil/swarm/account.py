"""An account of the notices that a built-in manager receives, the questions that it asks, and its orders."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduler.managers.decorators import ManagerDecorator
from scheduler.model import (
    Answer,
    DispatchOrder,
    Job,
    JobId,
    RunId,
)
from scheduler.notices import JobArrived, Notice, RunEnded, RunLost, RunPreempted
from scheduler.resource_manager import Manager, Ports
from sil.swarm.case import URGENT, Case

SERVES_IN_ORDER = "serves-in-order"
DISPLACES_FOR_A_REASON = "displaces-for-a-reason"
FOLLOWS_DECISIONS = "follows-decisions"
ESTIMATES_ARE_CURRENT = "estimates-are-current"
ACCEPTS_JOBS_ONCE = "accepts-jobs-once"

ROUNDING_S = 1e-6

Broken = Callable[[str, JobId | None, str], None]
"""Called with a rule that is broken, the job concerned, and one sentence."""


@dataclass(slots=True)
class Run:
    """A run that is not over, as far as the manager knows; times by its clock."""

    order: DispatchOrder
    queue: str
    ordered_s: float
    is_stopping: bool = False

    @property
    def completion_s(self) -> float:
        return self.ordered_s + self.order.expected_s


class Account(ManagerDecorator):
    """What is the same on all kinds of machines; also the dispatcher of the manager that is followed."""

    def __init__(self, case: Case, ports: Ports, broken: Broken) -> None:
        self._case, self._broken = case, broken
        self._ports, self._clock = ports, ports.clock
        self._submitted: set[JobId] = set()
        self._jobs: dict[JobId, Job] = {}
        """Those that have arrived and are not complete."""
        self._runs: dict[RunId, Run] = {}
        self._displaced: Counter[JobId] = Counter()
        """By job: how many of its runs were ordered to stop."""
        self._stops: list[RunId] = []
        """Of the present answer."""

    def follow(self, make: Callable[[Ports], Manager]) -> None:
        dispatcher: Any = self  # the manager gives no other orders
        self._manager = make(replace(self._ports, dispatcher=dispatcher))

    def handle(self, notice: Notice) -> str | None:
        if isinstance(notice, JobArrived):
            return self._job_arrived(notice)
        if isinstance(notice, RunEnded | RunPreempted | RunLost):
            run = self._runs.pop(notice.run, None)
            if run is not None and isinstance(notice, RunEnded):
                self._jobs.pop(run.order.job.id, None)
        return super().handle(notice)

    def _job_arrived(self, notice: JobArrived) -> str | None:
        job = notice.job
        if job.id in self._submitted:
            message = f"the manager gets job {job.id} again, which was submitted before"
            self._broken(ACCEPTS_JOBS_ONCE, job.id, message)
        self._submitted.add(job.id)
        refusal = super().handle(notice)
        if refusal is None:
            self._jobs[job.id] = job
        return refusal

    def dispatch(self, order: DispatchOrder) -> None:
        job = order.job.id
        if job not in self._jobs or any(run.order.job.id == job for run in self._runs.values()):
            self._broken(FOLLOWS_DECISIONS, job, f"job {job} is ordered while it does not wait")
        self._runs[order.run] = Run(order, self._queue_of_order(order), self._clock.now_s)
        self._ports.dispatcher.dispatch(order)

    def preempt(self, run_id: RunId) -> None:
        run = self._runs.get(run_id)
        if run is None or run.is_stopping:
            self._broken(DISPLACES_FOR_A_REASON, None, f"run {run_id} is to stop, but does not run")
        else:
            run.is_stopping = True
            self._stops.append(run_id)
            self._displaced[run.order.job.id] += 1
        self._ports.dispatcher.preempt(run_id)

    @abstractmethod
    def on_problem(self, queue: str, problem: Any) -> None:
        """The scheduler of a queue is asked."""

    @abstractmethod
    def on_answer_to(self, problem: Any, answer: Answer) -> None:
        """Its answer, before the manager checks it."""

    @abstractmethod
    def _queue_of_order(self, order: DispatchOrder) -> str:
        """The queue whose job is started."""

    def _queue_of(self, job: Job) -> str:
        return job.queue

    def _check_waiting(self, jobs: Sequence[Job], may: Iterable[JobId], must: Iterable[JobId]) -> None:
        """The jobs of a problem are in order, each once: all that `must` wait, and others that `may`."""
        jobs = [self._jobs.get(job.id, job) for job in jobs]  # as they arrived
        keys = [(self._queue_of(job) != URGENT, job.arrival_s, job.id) for job in jobs]
        for (*_, job), earlier, later in zip(keys[1:], keys, keys[1:], strict=False):
            if later <= earlier:
                message = f"job {job} is behind job {earlier[2]} in the problem, but goes before it"
                self._broken(SERVES_IN_ORDER, job, message)
        asked = {job.id for job in jobs}
        for job in sorted(asked.difference(may)):
            self._broken(SERVES_IN_ORDER, job, f"job {job} is in the problem, but does not wait there")
        for job in sorted(set(must) - asked):
            self._broken(SERVES_IN_ORDER, job, f"job {job} waits, but is not in the problem of its queue")

    def _check_running(self, running: Mapping[RunId, Any], from_s: float) -> None:
        """No run is expected to end before `from_s`; without delays, it ends when its decision said."""
        for run_id, run in self._runs.items():
            if run_id in running:
                expected_s = max(from_s, run.completion_s)
                if abs(running[run_id].completion_s - expected_s) > ROUNDING_S:
                    job, given_s = run.order.job.id, running[run_id].completion_s
                    message = f"job {job} is expected to end at {given_s:.12g} s, not {expected_s:.12g} s"
                    self._broken(ESTIMATES_ARE_CURRENT, job, message)
