"""The simulated world, and the loop that runs a resource manager in it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any

from scheduler.model import Job, JobId
from scheduler.ports import (
    DrainChanged,
    JobActedOn,
    JobArrived,
    MonitorNews,
    Notice,
    ReservationMade,
    RunEnded,
    RunLost,
    RunPreempted,
    RunReleased,
    TimePassed,
)
from scheduler.resource_manager import Manager
from scheduler.rules import MAKES_PROGRESS, ScheduleRejected
from sil.trace.facts import FAILED, Fact
from sil.trace.recorder import Columns, TraceRecorder
from sil.world.events import (
    AnyEvent,
    ArrivalDue,
    EndDue,
    EventQueue,
    JobGivenUp,
    LocalChanged,
    MessageDue,
    NodeNotice,
    ReleaseDue,
    RoundDue,
    Rounds,
    SimClock,
    StateChange,
    Subject,
    WakeUp,
)
from sil.world.failures import TimedChange, as_fact
from sil.world.guard.faults import SchedulerFault, stuck
from sil.world.machines.execution import ExecutionModel, SimDispatcher
from sil.world.monitors import SimMonitor

MAX_IDLE_ROUNDS = 10_000
"""More rounds in a row without an arrival or a completion are an endless loop, unless time passes between
them and a run will end or a job will arrive; so are more wake-ups in a row that lead to no round."""

MAX_ROUNDS_UNTIL_REPAIR = 20 * MAX_IDLE_ROUNDS
"""The limit while something is down that will come back."""

MIN_STEP_S = 0.09
"""Time passes if rounds are this far apart on average: a scheduler may ask for ten a second."""


Handlers = Mapping[type[AnyEvent], Callable[[Any], None]]


@dataclass(frozen=True, eq=False)
class World:
    """Everything outside the resource manager in one simulated run."""

    clock: SimClock
    events: EventQueue
    trace: TraceRecorder
    machines: ExecutionModel
    monitor: SimMonitor
    rounds: Rounds
    changes: Iterator[TimedChange] = field(default_factory=lambda: iter(()))
    """Outages, what local users demand, and what is done with jobs, in order of time."""
    node_handlers: Handlers = field(default_factory=dict)
    """The handlers of the events of time-shared nodes: LocalChanged, ControlDue and SampleDue."""
    unsuccessful: Collection[int] = ()
    """The jobs that say themselves, at their end, that they failed."""

    @cached_property
    def dispatcher(self) -> SimDispatcher:
        return SimDispatcher(self.clock, self.events, self.machines, self.trace)

    def run(self, jobs: Iterable[Job], manager: Manager) -> None:
        """Run until all accepted jobs have ended. `jobs` are in order of arrival, then id. Raises
        SchedulerFault if the system under test breaks a rule."""
        for _ in self.steps(jobs, manager):
            pass

    def steps(self, jobs: Iterable[Job], manager: Manager) -> Iterator[None]:
        """As `run`, with a stop before each event."""
        return Harness(jobs, manager, self).steps()


class RemainingManager(Manager):
    """A resource manager that may have to do something after the end of all jobs."""

    @abstractmethod
    def is_settled(self) -> bool:
        """Whether nothing remains."""


class Harness:
    """The event loop: delivers events to the manager and starts rounds when they are due.

    `steps` ends when every accepted job has ended and no decision is pending. The cost of an event does not
    depend on the size of the site or the length of the workload: jobs and changes are read from their streams
    one at a time.
    """

    def __init__(self, jobs: Iterable[Job], manager: Manager, world: World) -> None:
        self._arrivals = iter(jobs)
        self._next_arrival: Job | None = None
        self._unfinished: set[JobId] = set()
        """Jobs that have arrived and not ended."""
        self._manager = manager
        self._is_settled = manager.is_settled if isinstance(manager, RemainingManager) else lambda: True
        self._world = world
        self._clock = world.clock
        self._events = world.events
        self._machines = world.machines
        self._trace = world.trace
        self._round_is_due = False
        self._last_round_s: float | None = None
        self._idle_rounds = 0
        self._idle_since_s = 0.0
        """Time of the first idle round."""
        self._down: dict[int | str, bool] = {}
        """Machines and interconnects, and whether each is down permanently."""
        self._idle_at_repair = 0
        """Number of idle rounds at the last repair."""
        self._wakes_at_s: float | None = None
        self._idle_wake_ups = 0
        """Number of wake-ups since the last round, arrival or completion."""
        self._woken_since_s = 0.0
        """Time of the first of them."""
        self._pending: list[Notice] = []
        """Notices for a busy resource manager, oldest first."""
        self._manager_is_busy = False
        self._clock.on_wait(self._run_until)
        self._handlers: Handlers = {
            **world.node_handlers,
            EndDue: self._run_ended,
            ReleaseDue: self._run_released,
            RunLost: self._notify,
            RunPreempted: self._notify,
            StateChange: self._state_changed,
            LocalChanged: self._local_changed,
            MessageDue: lambda event: event.act(),
            MonitorNews: self._notify,
            DrainChanged: self._nodes_changed,
            ReservationMade: self._nodes_changed,
            ArrivalDue: self._job_arrived,
            JobArrived: self._job_arrived,
            JobActedOn: self._job_acted_on,
            JobGivenUp: self._job_given_up,
            WakeUp: self._woken,
            RoundDue: self._run_round,
        }

    @property
    def is_over(self) -> bool:
        """Whether every accepted job has ended and no decision is pending."""
        return self._next_arrival is None and not (
            self._unfinished or self._round_is_due or self._events.submissions or not self._is_settled()
        )

    def steps(self, is_over: Callable[[], bool] | None = None) -> Iterator[None]:
        """Run to the end, with a stop before each event. Raises SchedulerFault if the system under test
        breaks a rule. `is_over`, unless it is this harness alone that decides."""
        self._appoint_next_arrival()
        self._push_next_change()
        events, manager, clock, handlers = self._events, self._manager, self._clock, self._handlers
        rounds = self._world.rounds
        if manager.wants_round:
            self._round_is_due = True
            events.appoint_round(clock.now_s)
        while True:
            if self.is_over if is_over is None else is_over():
                return
            yield
            try:
                time_s, event = events.pop()
            except IndexError:
                if manager.dismiss():
                    continue
                raise self._stuck("jobs remain and nothing can happen any more") from None
            clock.now_s = time_s
            try:
                handlers[type(event)](event)
            except ScheduleRejected as rejected:
                raise SchedulerFault.of(rejected.violation, clock.now_s) from rejected
            if not self._round_is_due and manager.wants_round:
                self._round_is_due = True
                events.appoint_round(rounds.due_s(clock.now_s, self._last_round_s))
            wakes_at_s = manager.wakes_at_s
            if wakes_at_s != self._wakes_at_s:
                events.appoint_wake_up(wakes_at_s if wakes_at_s is None else max(wakes_at_s, clock.now_s))
                self._wakes_at_s = wakes_at_s

    def _run_ended(self, event: EndDue) -> None:
        run, now_s = event.run, self._clock.now_s
        if not self._machines.has_ended(run, now_s):
            return  # it was preempted or lost before, or its completion has moved
        order, lost_s = self._machines.interrupt(run, now_s)
        job = order.job.id
        if self._machines.has_failed(run, job):
            failed = Columns(job=job, run=run, resource=order.resource, expected_s=lost_s, detail=FAILED)
            self._trace.note(now_s, Fact.RUN_LOST, **failed)
            self._idle_rounds = 0
            self._notify(RunLost(run, now_s, failed_job=job))
            return
        self._trace.note_end(now_s, order)
        self._unfinished.discard(job)
        self._idle_rounds = self._idle_wake_ups = 0
        self._notify(RunEnded(run, now_s, exit_code=int(job in self._world.unsuccessful)))

    def _run_released(self, event: ReleaseDue) -> None:
        if self._machines.release(event.run, self._clock.now_s):
            self._notify(RunReleased(event.run))

    def _local_changed(self, event: LocalChanged) -> None:
        self._push_next_change()
        self._world.node_handlers[LocalChanged](event)

    def _job_arrived(self, event: ArrivalDue | JobArrived) -> None:
        if isinstance(event, JobArrived):
            self._events.submissions -= 1
        else:
            assert self._next_arrival is not None
            event = JobArrived(self._next_arrival)
            self._appoint_next_arrival()
        self._unfinished.add(event.job.id)
        self._idle_rounds = self._idle_wake_ups = 0
        self._trace.note_arrival(self._clock.now_s, event.job)
        self._notify(event)

    def _job_acted_on(self, event: JobActedOn) -> None:
        self._push_next_change()
        self._notify(event)

    def _job_given_up(self, event: JobGivenUp) -> None:
        self._unfinished.discard(event.job)
        self._idle_rounds = 0

    def _state_changed(self, event: StateChange) -> None:
        """Handle a change of state. What changes together is down together before any notice: nothing starts
        there meanwhile."""
        up = event.up
        self._push_next_change()
        changed = [subject for subject in event.subjects if self._machines.change(subject, up)]
        now_s = self._clock.now_s
        known_as: tuple[Subject, ...] = ()
        for subject in changed:
            if up:
                self._down.pop(subject, None)
                self._idle_at_repair = self._idle_rounds
            else:
                self._down[subject] = event.permanently
            known_as += (of_one := self._machines.known_as(subject))
            for one in of_one:
                if isinstance(one, int):
                    self._trace.note(now_s, Fact.MACHINE_UP if up else Fact.MACHINE_DOWN, resource=one)
                else:
                    self._trace.note(
                        now_s, Fact.INTERCONNECT_UP if up else Fact.INTERCONNECT_DOWN, detail=one
                    )
            for seen_s in self._world.monitor.observe(of_one, up):
                self._events.push(seen_s, MonitorNews())
        if not up:
            hit = (run for subject in changed for run in self._machines.runs_hit_by(subject))
            for run in [*dict.fromkeys(hit)]:
                if not self._machines.is_active(run):
                    continue  # preempted after the loss of another
                order, lost_s = self._machines.interrupt(run, now_s)
                lost = Columns(job=order.job.id, run=run, resource=order.resource, expected_s=lost_s)
                self._trace.note(now_s, Fact.RUN_LOST, **lost)
                self._notify(RunLost(run, now_s, known_as))

    def _nodes_changed(self, event: NodeNotice) -> None:
        self._push_next_change()
        fact, detail = as_fact(event)
        self._trace.note(self._clock.now_s, fact, machines=event.nodes, detail=detail)
        self._notify(event)

    def _woken(self, event: WakeUp) -> None:
        now_s = self._clock.now_s
        if self._idle_wake_ups == 0:
            self._woken_since_s = now_s
        n, self._idle_wake_ups = self._idle_wake_ups, self._idle_wake_ups + 1
        if n >= MAX_IDLE_ROUNDS:
            if now_s - self._woken_since_s < n * MIN_STEP_S:
                raise self._stuck(f"{n} wake-ups led to no round, and no job arrived or ended")
            self._idle_wake_ups = 0
        self._notify(TimePassed())

    def _run_round(self, _: RoundDue) -> None:
        now_s = self._clock.now_s
        self._round_is_due = False
        self._idle_wake_ups = 0
        self._last_round_s = now_s
        if self._idle_rounds == 0:
            self._idle_since_s = now_s
        self._idle_rounds += 1
        if self._idle_rounds > MAX_IDLE_ROUNDS:
            self._check_progress(now_s)
        self._manager.run_round()
        if self._manager_is_busy:
            self._manager_is_busy = False
            pending, self._pending = self._pending, []
            for notice in pending:
                self._notify(notice)

    def _run_until(self, time_s: float) -> None:
        """Handle events while the resource manager is busy; it receives the notices after its round."""
        self._manager_is_busy = True
        events, clock = self._events, self._clock
        while events.next_s < time_s:
            clock.now_s, event = events.pop()
            self._handlers[type(event)](event)

    def _notify(self, notice: Notice) -> None:
        if self._manager_is_busy:
            self._pending.append(notice)
        elif (refusal := self._manager.handle(notice)) is not None and isinstance(notice, JobArrived):
            self._unfinished.discard(notice.job.id)
            self._trace.note(self._clock.now_s, Fact.JOB_REFUSED, job=notice.job.id, detail=refusal)

    def _check_progress(self, now_s: float) -> None:
        """Raise SchedulerFault for an endless loop: a scheduler may ask for rounds while jobs run, but not
        for one after the other."""
        n = self._idle_rounds - 1
        if now_s - self._idle_since_s >= n * MIN_STEP_S:
            if self._next_arrival is not None or not self._machines.is_idle:
                self._idle_rounds = 0
                return
            may_recover = not all(self._down.values()) or 0 <= n - self._idle_at_repair < MAX_IDLE_ROUNDS
            if n < MAX_ROUNDS_UNTIL_REPAIR and may_recover:
                return
        raise self._stuck(f"{n} rounds went by and no job arrived or ended")

    def _appoint_next_arrival(self) -> None:
        job = self._next_arrival = next(self._arrivals, None)
        if job is not None:
            self._events.appoint_arrival(job.arrival_s)

    def _push_next_change(self) -> None:
        change = next(self._world.changes, None)
        if change is not None:
            self._events.push(*change)

    def _stuck(self, why: str) -> SchedulerFault:
        waiting = self._manager.why_waiting()
        message = stuck(why, waiting)
        n_gone = sum(self._down.values())
        if n_gone:
            verb = "is" if n_gone == 1 else "are"
            message += f"; {n_gone} of the machines and interconnects {verb} permanently down"
        job = min(waiting or self._unfinished, default=None)
        return SchedulerFault(MAKES_PROGRESS, message, self._clock.now_s, job)


class Together:
    """Worlds that share one clock, each with the jobs that are submitted there and its resource manager.

    Events take place in order of time and, among simultaneous ones, of their rank, as in one world: all
    clusters hear of everything that happens at an instant before any of them has its round. Of equal events,
    that of the first cluster comes first.
    """

    def __init__(self, members: Iterable[tuple[World, Iterable[Job], Manager]]) -> None:
        self._worlds = [(world.events, Harness(jobs, manager, world)) for world, jobs, manager in members]
        self._is_begun = False

    def steps(self) -> Iterator[int]:
        """Run until all jobs have ended, with a stop before each event: the number of its cluster."""
        runs = [harness.steps(self._is_over) for _, harness in self._worlds]
        for run in runs:
            next(run)  # to its first stop
        self._is_begun = True
        while not self._is_over():
            (time_s, _), k = min((events.next_key, k) for k, (events, _) in enumerate(self._worlds))
            if time_s == inf:  # nothing can happen any more, and jobs remain
                k = next(k for k, (_, harness) in enumerate(self._worlds) if not harness.is_over)
            yield k
            next(runs[k], None)

    def _is_over(self) -> bool:
        return self._is_begun and all(harness.is_over for _, harness in self._worlds)
