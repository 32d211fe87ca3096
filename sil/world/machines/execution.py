"""The interface of simulated machines for the event loop; the dispatcher, which carries out orders; and
machines that each have one run at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from scheduler.model import DispatchOrder, Job, JobId, RunId, Site
from scheduler.ports import RunLost, RunPreempted
from scheduler.rules import (
    CLASS_CAN_RUN_THERE,
    CLUSTER_MEMBERS_FREE,
    KNOWN_RESOURCE,
    MAKES_PROGRESS,
    NO_DOUBLE_BOOKING,
)
from sil.trace.facts import Fact
from sil.trace.recorder import Columns, TraceRecorder
from sil.world.actual_runtimes import ActualRuntimes
from sil.world.events import EndDue, EventQueue, JobGivenUp, SimClock
from sil.world.failures import Hindrances
from sil.world.guard.faults import SchedulerFault


class ExecutionModel(ABC):
    """Executes runs, whose actual run times only it has. Completions are events, `EndDue`."""

    _active: Mapping[RunId, object]

    def __init__(self, hindrances: Hindrances | None = None) -> None:
        self._hindrances = hindrances
        self._outages: dict[int | str, int] = {}
        """The number of current outages of each machine and interconnect that is down."""

    @property
    def is_idle(self) -> bool:
        """Whether no run is active."""
        return not self._active

    def is_active(self, run: RunId) -> bool:
        return run in self._active

    def has_ended(self, run: RunId, now_s: float) -> bool:
        """Whether an active run is complete. An event may be out of date, if the completion has moved."""
        return run in self._active

    def has_failed(self, run: RunId, job: JobId) -> bool:
        """Whether a run that has come to its end has failed. Asked once for each."""
        return self._hindrances is not None and self._hindrances.has_failed(run, job)

    def release(self, run: RunId, now_s: float) -> bool:
        """Free what a run holds before its completion is reported. False if it holds that until then."""
        return False

    def down_for(self, order: DispatchOrder) -> tuple[int | str, ...]:
        """What an order needs that is down: machines by index, interconnects by name."""
        return tuple(n for n in self._outages if n in order.machines) if self._outages else ()

    @abstractmethod
    def check(self, order: DispatchOrder, now_s: float) -> None:
        """Raise SchedulerFault for an order that was wrong when it was given."""

    @abstractmethod
    def start(self, order: DispatchOrder, now_s: float) -> None:
        """Carry out an order that has been checked."""

    @abstractmethod
    def stop(self, run: RunId, now_s: float) -> DispatchOrder:
        """End a run, for any reason, and free what it holds. Returns the order that started it."""

    def interrupt(self, run: RunId, now_s: float) -> tuple[DispatchOrder, float | None]:
        """As `stop`. Returns also the seconds since the last checkpoint of a job that takes any."""
        left_s = 0.0 if self._hindrances is None else self._left_s_of(run, now_s)
        order = self.stop(run, now_s)
        return order, None if self._hindrances is None else self._hindrances.lost_s(order, left_s)

    def _left_s_of(self, run: RunId, now_s: float) -> float:
        """The seconds that an active run has left; 0 where runs have no checkpoints."""
        return 0.0

    def _hindered_s(self, order: DispatchOrder, usual_s: float, now_s: float) -> float:
        """The actual seconds of a run that starts now and usually takes `usual_s`."""
        return usual_s if self._hindrances is None else self._hindrances.run_s(order, usual_s, now_s)

    def is_suspended(self, run: RunId) -> bool:
        return False

    def suspend(self, run: RunId, now_s: float) -> DispatchOrder:
        """Stop an active run, which keeps what it has done. Returns the order that started it."""
        # Not reached: Slurm's controller and preemption under a policy suspend runs on nodes, which can.
        raise NotImplementedError("runs on these machines cannot be suspended")

    def resume(self, run: RunId, now_s: float) -> DispatchOrder:
        """Let a suspended run continue. Returns the order that started it. Raises SchedulerFault if it
        cannot."""
        # Not reached either: only what was suspended is resumed.
        raise NotImplementedError("runs on these machines cannot be resumed")

    @abstractmethod
    def runs_hit_by(self, subject: int | str) -> list[RunId]:
        """The active runs that cannot continue now that `subject` is down."""

    def known_as(self, subject: int | str) -> tuple[int | str, ...]:
        """What the resource manager knows `subject` as: itself, or the slots of a machine, by index."""
        return (subject,)

    def is_down(self, place: int) -> bool:
        """Whether a machine is down, as the resource manager knows it: by index, also of one of its slots."""
        return place in self._outages

    def change(self, subject: int | str, up: bool) -> bool:
        """A machine or interconnect goes down or comes back. False if another outage hides the change."""
        before = self._outages.pop(subject, 0)
        after = before + (-1 if up else 1)
        if after:
            self._outages[subject] = after
        return (before == 0) != (after == 0)


MAX_STARTS_OF_A_JOB = 1_000
"""The most starts of a job: one that is started more often is being preempted in an endless loop."""


class SimDispatcher:
    """Carries out orders at once; the notice follows as an event of the same instant."""

    def __init__(
        self, clock: SimClock, events: EventQueue, machines: ExecutionModel, trace: TraceRecorder
    ) -> None:
        self._clock, self._events, self._machines, self._trace = clock, events, machines, trace
        self.on_start: Callable[[DispatchOrder], None] = lambda order: None
        self.on_given_up: Callable[[JobId], object] = lambda job: None
        self._starts: dict[JobId, int] = {}

    @property
    def next_event_s(self) -> float:
        """The time until which nothing happens in the world if no order is given; infinite if nothing
        will."""
        return self._events.next_s

    def dispatch(self, order: DispatchOrder) -> None:
        now_s = self._clock.now_s
        job = order.job.id
        starts = self._starts[job] = self._starts.get(job, 0) + 1
        if starts > MAX_STARTS_OF_A_JOB:
            message = f"job {job} was started {MAX_STARTS_OF_A_JOB} times and never allowed to end"
            raise SchedulerFault(MAKES_PROGRESS, message, now_s, job)
        found_down = self._machines.down_for(order)
        if found_down:
            self._note(Fact.ORDER_OVERTAKEN, order)
            self._events.push(now_s, RunLost(order.run, now_s, found_down))
            return
        self._machines.check(order, now_s)
        self.on_start(order)
        self._trace.note_start(now_s, order)
        self._machines.start(order, now_s)  # its consequences are noted after it

    def preempt(self, run: RunId) -> None:
        if self._machines.is_active(run):
            now_s = self._clock.now_s
            self._note(Fact.RUN_PREEMPTED, *self._machines.interrupt(run, now_s))
            self._events.push(now_s, RunPreempted(run))

    def suspend(self, run: RunId) -> None:
        """Stop a run, which keeps what it has done. Others may use its processors until it continues."""
        if self._machines.is_active(run) and not self._machines.is_suspended(run):
            self._note(Fact.RUN_STOPPED, self._machines.suspend(run, self._clock.now_s))

    def resume(self, run: RunId) -> None:
        """Let a suspended run continue. Raises SchedulerFault if its processors are not free."""
        if self._machines.is_suspended(run):
            self._note(Fact.RUN_CONTINUED, self._machines.resume(run, self._clock.now_s))

    def submit(self, job: Job, at_s: float | None = None) -> None:
        """Let a job that the resource manager itself, or a meta-scheduler, submits arrive now, or later."""
        self._events.submit(self._clock.now_s if at_s is None else at_s, job)

    def move(self, job: JobId, where: str) -> None:
        """A job that has arrived, and does not run, is in the queues of other clusters."""
        self._trace.note(self._clock.now_s, Fact.JOB_MOVED, job=job, detail=where)
        self._events.push(self._clock.now_s, JobGivenUp(job))

    def ineligible(self, job: JobId, why: str) -> None:
        self._trace.note(self._clock.now_s, Fact.JOB_INELIGIBLE, job=job, detail=why)

    def eligible(self, job: JobId, waited_for: str) -> None:
        self._trace.note(self._clock.now_s, Fact.JOB_ELIGIBLE, job=job, detail=waited_for)

    def describe(self, job: JobId, text: str) -> None:
        """Record metadata of a job."""
        self._trace.note(self._clock.now_s, Fact.JOB_DESCRIBED, job=job, detail=text)

    def give_up(self, job: JobId, why: str) -> None:
        """Drop a job that is not complete: it was rejected or killed."""
        now_s = self._clock.now_s
        self._trace.note(now_s, Fact.JOB_REFUSED, job=job, detail=why)
        self.on_given_up(job)
        self._events.push(now_s, JobGivenUp(job))

    def _note(self, fact: Fact, order: DispatchOrder, lost_s: float | None = None) -> None:
        run, job, resource, machines, *_ = order
        of_run = Columns(job=job.id, run=run, resource=resource, machines=machines, expected_s=lost_s)
        self._trace.note(self._clock.now_s, fact, **of_run)


class DedicatedMachines(ExecutionModel):
    """The actual state of a site's machines and interconnects.

    The machines of `site` are slots: `slots` are those of each machine, which go down and come back together.
    A cluster can run jobs while one of its interconnects is up.
    """

    def __init__(
        self,
        site: Site,
        actual_runtimes: ActualRuntimes,
        events: EventQueue,
        slots: Sequence[tuple[int, ...]],
        hindrances: Hindrances | None = None,
    ) -> None:
        super().__init__(hindrances)
        self._site = site
        self._slots = slots
        self._machine_of = {j: machine for machine, of_one in enumerate(slots) for j in of_one}
        self._actual_runtimes = actual_runtimes
        self._events = events
        self._run_on: list[RunId | None] = [None] * site.n_machines
        self._active: dict[RunId, DispatchOrder] = {}
        self._ends_s: dict[RunId, float] = {}

    def down_for(self, order: DispatchOrder) -> tuple[int | str, ...]:
        """All slots of machines, else the interconnects of the cluster if all are down."""
        machines = dict.fromkeys(self._machine_of[j] for j in order.machines) if self._outages else ()
        slots = tuple(j for machine in machines if self._outages.get(machine) for j in self._slots[machine])
        return slots or self._missing_interconnects(order.resource)

    def check(self, order: DispatchOrder, now_s: float) -> None:
        """Raises SchedulerFault if a machine is busy or not part of the resource, or if the job cannot run
        there."""
        job, where = order.job.id, self._site.resource_names[order.resource]
        c = order.resource - self._site.n_machines
        members = {order.resource} if c < 0 else set(self._site.members[c])
        if not order.machines or not members.issuperset(order.machines):
            message = f"job {job} was dispatched to {where} with machines that do not belong to it"
            raise SchedulerFault(KNOWN_RESOURCE, message, now_s, job)
        if not self._actual_runtimes.can_run(order.job, order.resource):
            kind = order.job.job_class
            message = f"job {job} was dispatched to {where}, where jobs of class '{kind}' cannot run"
            raise SchedulerFault(CLASS_CAN_RUN_THERE, message, now_s, job)
        for j in order.machines:
            run = self._run_on[j]
            if run is not None:
                rule = NO_DOUBLE_BOOKING if c < 0 else CLUSTER_MEMBERS_FREE
                other, machine = self._active[run].job.id, self._site.resource_names[j]
                message = f"job {job} was dispatched to {where} while job {other} runs on machine {machine}"
                raise SchedulerFault(rule, message, now_s, job)

    def start(self, order: DispatchOrder, now_s: float) -> None:
        for j in order.machines:
            self._run_on[j] = order.run
        self._active[order.run] = order
        c = order.resource - self._site.n_machines
        share = 1.0 if c < 0 else len(order.machines) / len(self._site.members[c])
        run_s = self._actual_runtimes.run_s(order.job, order.resource, share)
        if self._hindrances is not None and self._hindrances.checkpoints is not None:
            run_s = self._hindrances.checkpoints.run_s(run_s)
        self._begin(order, self._hindered_s(order, run_s, now_s), now_s)

    def _begin(self, order: DispatchOrder, run_s: float, now_s: float) -> None:
        self._ends_s[order.run] = now_s + run_s
        self._events.push(now_s + run_s, EndDue(order.run))

    def _left_s_of(self, run: RunId, now_s: float) -> float:
        return self._ends_s[run] - now_s

    def stop(self, run: RunId, now_s: float) -> DispatchOrder:
        order = self._active.pop(run)
        self._ends_s.pop(run, None)
        for j in order.machines:
            self._run_on[j] = None
        return order

    def runs_hit_by(self, subject: int | str) -> list[RunId]:
        if isinstance(subject, int):
            runs = dict.fromkeys(self._run_on[j] for j in self._slots[subject])
            return [run for run in runs if run is not None]
        active = self._active.items()
        return [run for run, order in active if subject in self._missing_interconnects(order.resource)]

    def known_as(self, subject: int | str) -> tuple[int | str, ...]:
        return self._slots[subject] if isinstance(subject, int) else (subject,)

    def is_down(self, place: int) -> bool:
        return self._machine_of[place] in self._outages

    def _missing_interconnects(self, resource: int) -> tuple[str, ...]:
        """The interconnects of a cluster, if it has any and all are down."""
        c = resource - self._site.n_machines
        interconnects = self._site.clusters[c].interconnects if c >= 0 else ()
        return interconnects if all(self._outages.get(name) for name in interconnects) else ()
