"""The simulated dispatcher: orders go to simulated machines, notices come back as events."""

from __future__ import annotations

from scheduler.model import DispatchOrder, Job, JobId, RunId
from scheduler.notices import RunLost, RunPreempted
from scheduler.rules import MAKES_PROGRESS
from sil.trace.facts import Fact
from sil.trace.recorder import TraceRecorder
from sil.world.events import EventQueue, JobGivenUp, SimClock
from sil.world.guard.faults import SchedulerFault
from sil.world.machines.execution import ExecutionModel

MOST_STARTS_OF_A_JOB = 1_000
"""A job that is started more often is being preempted in an endless loop."""


class SimDispatcher:
    """Carries out orders at once; the notice follows as an event of the same instant."""

    def __init__(
        self, clock: SimClock, events: EventQueue, machines: ExecutionModel, trace: TraceRecorder
    ) -> None:
        self._clock, self._events, self._machines, self._trace = clock, events, machines, trace
        self._starts: dict[JobId, int] = {}

    @property
    def next_event_s(self) -> float:
        """Until when nothing happens in the world if no order is given; infinite if nothing will."""
        return self._events.next_s

    def dispatch(self, order: DispatchOrder) -> None:
        now_s = self._clock.now_s
        job = order.job.id
        starts = self._starts[job] = self._starts.get(job, 0) + 1
        if starts > MOST_STARTS_OF_A_JOB:
            message = f"job {job} was started {MOST_STARTS_OF_A_JOB} times and never allowed to end"
            raise SchedulerFault(MAKES_PROGRESS, message, now_s, job)
        found_down = self._machines.down_for(order)
        if found_down:
            self._note(Fact.ORDER_OVERTAKEN, order)
            self._events.push(now_s, RunLost(order.run, now_s, found_down))
            return
        self._machines.check(order, now_s)
        self._trace.note_start(now_s, order)
        self._machines.start(order, now_s)  # its consequences are noted after it

    def preempt(self, run: RunId) -> None:
        if self._machines.is_active(run):
            now_s = self._clock.now_s
            self._note(Fact.RUN_PREEMPTED, self._machines.stop(run, now_s))
            self._events.push(now_s, RunPreempted(run))

    def suspend(self, run: RunId) -> None:
        """Stop a run, which keeps what it has done. Others may use its processors until it continues."""
        if self._machines.is_active(run) and not self._machines.is_suspended(run):
            self._note(Fact.RUN_STOPPED, self._machines.suspend(run, self._clock.now_s))

    def resume(self, run: RunId) -> None:
        """Let a suspended run continue. Raises SchedulerFault if its processors are not free."""
        if self._machines.is_suspended(run):
            self._note(Fact.RUN_CONTINUED, self._machines.resume(run, self._clock.now_s))

    def submit(self, job: Job) -> None:
        """A job that the resource manager itself submits arrives now."""
        self._events.submit(self._clock.now_s, job)

    def describe(self, job: JobId, text: str) -> None:
        """Record metadata of a job."""
        self._trace.note(self._clock.now_s, Fact.JOB_DESCRIBED, job=job, detail=text)

    def give_up(self, job: JobId, why: str) -> None:
        """Drop a job that is not complete: it was rejected or killed."""
        now_s = self._clock.now_s
        self._trace.note(now_s, Fact.JOB_REFUSED, job=job, detail=why)
        self._events.push(now_s, JobGivenUp(job))

    def _note(self, fact: Fact, order: DispatchOrder) -> None:
        run, job, resource, machines, *_ = order
        self._trace.note(self._clock.now_s, fact, job=job.id, run=run, resource=resource, machines=machines)
