"""The fake dispatcher: orders go to simulated machines, notices come back as events."""

from __future__ import annotations

from scheduler.model import DispatchOrder, Job, JobId, RunId
from scheduler.rules import MAKES_PROGRESS
from sil.trace.facts import Fact
from sil.trace.recorder import TraceRecorder
from sil.world.clock import SimClock
from sil.world.events import EventQueue, JobGivenUp, OrderOvertaken, RunPreempted
from sil.world.guard.faults import SchedulerFault
from sil.world.machines.execution import ExecutionModel

MOST_STARTS_OF_A_JOB = 1_000
"""A job that is to be started more often than this is taken to be preempted in an endless loop."""


class SimDispatcher:
    """Carries out orders at once; the notice follows as an event of the same instant."""

    def __init__(
        self,
        clock: SimClock,
        events: EventQueue,
        machines: ExecutionModel,
        trace: TraceRecorder,
    ) -> None:
        self._clock = clock
        self._events = events
        self._machines = machines
        self._trace = trace
        self._starts: dict[JobId, int] = {}

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
            self._events.push(now_s, OrderOvertaken(order.run, found_down))
            return
        self._machines.check(order, now_s)
        self._trace.note_start(now_s, order)
        self._machines.start(order, now_s)  # whatever follows from it is noted after it

    def preempt(self, run: RunId) -> None:
        if self._machines.is_active(run):
            now_s = self._clock.now_s
            self._note(Fact.RUN_PREEMPTED, self._machines.stop(run, now_s))
            self._events.push(now_s, RunPreempted(run))

    def submit(self, job: Job) -> None:
        """A job of the resource manager's own arrives now."""
        self._events.submit(self._clock.now_s, job)

    def describe(self, job: JobId, text: str) -> None:
        """The resource manager says something of a job, for who reads the outcome."""
        self._trace.note(self._clock.now_s, Fact.JOB_DESCRIBED, job=job, detail=text)

    def give_up(self, job: JobId, why: str) -> None:
        """A job is over without having been done."""
        now_s = self._clock.now_s
        self._trace.note(now_s, Fact.JOB_REFUSED, job=job, detail=why)
        self._events.push(now_s, JobGivenUp(job))

    def _note(self, fact: Fact, order: DispatchOrder) -> None:
        self._trace.note(
            self._clock.now_s,
            fact,
            job=order.job.id,
            run=order.run,
            resource=order.resource,
            machines=order.machines,
        )
