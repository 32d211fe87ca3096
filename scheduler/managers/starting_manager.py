"""The resource manager for nodes: jobs start now or wait."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from math import inf
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

from scheduler.managers.availability import LatestReadings
from scheduler.managers.preemptor import Preemptor, RunStep, RunSteps
from scheduler.managers.queues import Admission
from scheduler.model import (
    ON_NODES,
    DispatchOrder,
    Job,
    JobId,
    MachineReading,
    NodeReading,
    NodeSchedule,
    RunId,
    Share,
    Start,
)
from scheduler.ports import (
    Act,
    CancellingDispatcher,
    ReservationMade,
    RunEnded,
    RunLost,
    Scheduler,
    SuspendingDispatcher,
)
from scheduler.problem import Running, SchedulingProblem
from scheduler.resource_manager import NOT_YET_CONSIDERED, OnFreeNodes, OnSharedNodes, ResourceManager
from scheduler.rules import ScheduleRejected

P = TypeVar("P", bound=SchedulingProblem, covariant=True)
Q = TypeVar("Q", bound=SchedulingProblem)

Submit = Callable[[Job, Mapping[RunId, Running]], str | None]
"""Queues a job beside the runs in progress. Returns None, or the reason for refusing it."""

PREEMPTED = "it is cancelled, since others preempt it"
"""Why a job is over that others preempted."""


class NodeAllocation(ABC, Generic[P]):
    """The state of nodes, updated by notices: which jobs wait for them and which run on them."""

    waiting: Sequence[Job]
    """The waiting jobs in order of service: by queue if there are several, then arrival, then id."""
    promised: dict[JobId, float]
    """By when unfinished jobs were promised to end."""
    preemptor: Preemptor | None = None
    """Stops runs for others; None: none are."""

    @property
    def outlived_at_s(self) -> float | None:
        """When the next run will exceed its estimate, or a job waits again; None if that does not matter."""
        return None

    @property
    def asks_again_s(self) -> float | None:
        """When the order of the waiting jobs will change; None if it will not."""
        return None

    @abstractmethod
    def submit(self, job: Job) -> str | None:
        """Queue a job. Returns None, or the reason for refusing it."""

    def withdraw(self, job: JobId) -> Job | None:
        """Remove a job from the queue; None if it does not wait."""
        return None

    @abstractmethod
    def problem(self, now_s: float, running: Mapping[RunId, Running]) -> P:
        """The problem for the scheduler, now."""

    @abstractmethod
    def start(self, run: RunId, job: Job, start: Start, now_s: float) -> tuple[Share, ...]:
        """Start a waiting job. Returns what it uses of nodes with cores, memory and GPUs."""

    @abstractmethod
    def end(self, run: RunId, ended: RunEnded) -> None:
        """End a running job."""

    @abstractmethod
    def requeue(self, run: RunId) -> None:
        """A running job lost its nodes and its progress: queue it again."""

    def take_back(self, run: RunId) -> None:
        """A run is not to begin after all: its job waits as before."""
        self.requeue(run)

    def drop(self, run: RunId) -> Job:
        """End a running job that is not queued again. Returns it."""
        raise NotImplementedError  # not reached: only runs of rigid jobs are stopped for others

    @abstractmethod
    def set_available(self, node: int, is_available: bool) -> None:
        """Mark a node as up or down."""

    def reserve(self, reservation: ReservationMade) -> None:
        """Note a reservation of nodes, where jobs request parts of these."""

    def nothing_fits(self) -> bool:
        """Whether it is certain that no waiting job can start now, or after others are stopped for it."""
        return False

    def note_stopped(self, run: RunId) -> None:
        """A run was stopped, for others or for another reason."""

    def read(self, reading: NodeReading) -> bool:
        """Set the local load of a node. Returns whether the scheduler should be called again."""
        return False

    def release(self, run: RunId, now_s: float) -> None:
        """Free the nodes of a run that is about to end; if that was expected, they are free already."""

    def reestimate(self, now_s: float) -> None:
        """Re-estimate the runs that should have ended by now, and queue jobs that wait again."""


class NodeManager(ResourceManager, Generic[Q]):
    """The resource manager for nodes, free or time-shared, with one order of service.

    Notices change state; a round calls the scheduler, gives orders for the jobs that it starts, and then
    stops runs that waiting jobs of other queues displace. The job of a stopped run waits again, without its
    progress, once that is reported. A `memoryless` scheduler is not called while no job fits or may displace
    others. The cost of an operation does not depend on the number of waiting jobs or nodes, except for
    queueing a job again that lost its run and, on time-shared nodes, for copying the queue."""

    def __init__(
        self,
        ports: OnFreeNodes | OnSharedNodes,
        nodes: NodeAllocation[Q],
        scheduler: Scheduler[Q, NodeSchedule],
        memoryless: bool = False,
        admission: Admission | None = None,
        new_jobs: Callable[[Mapping[JobId, Job], float], None] | None = None,
    ) -> None:
        """`new_jobs` is called after each round with the jobs that arrived since the previous one, and the
        time."""
        self._nodes = nodes
        self._scheduler = scheduler
        self._always_called = new_jobs is not None or not memoryless
        self._clock = ports.clock
        self._dispatcher = ports.dispatcher
        self._monitor = ports.monitor
        self._admission = admission
        self.submit: Submit = lambda job, running: nodes.submit(job)
        self._listener = new_jobs
        self._unfinished_of: Counter[str] = Counter()
        self._running: dict[RunId, Running] = {}
        self._run_ids = cast("Iterator[RunId]", count())
        self.wants_round = False
        self.wakes_at_s: float | None = None
        """The next time at which a run exceeds its estimate or the scheduler asked to be called again."""
        self._asks_again_s: float | None = None
        self._new_jobs: dict[JobId, Job] = {}
        self._last_schedule: NodeSchedule | None = None
        self._down, self._drained = set[int](), set[int]()
        self._latest = LatestReadings()
        self._orders: Mapping[RunId, DispatchOrder] = {}
        """Those of the present decision."""

    def why_waiting(self) -> dict[JobId, str]:
        """The wait reason of each waiting job."""
        left = sorted(self._last_schedule.wait_reasons.items()) if self._last_schedule else []
        reasons = (reason for _, reason in left)
        seen = (job.id for job in self._nodes.waiting if job.id not in self._new_jobs)
        return dict.fromkeys(self._new_jobs, NOT_YET_CONSIDERED) | {
            job: next(reasons, NOT_YET_CONSIDERED) for job in seen
        }

    def on_job_arrived(self, job: Job) -> str | None:
        if self._admission is not None:
            refused = self._admission.refusal(job, self._unfinished_of[job.user])
            if refused is not None:
                return refused
        if (refused := self.submit(job, self._running)) is not None:
            return refused
        if self._admission is not None:
            self._unfinished_of[job.user] += 1
        self._new_jobs[job.id] = job
        if self._always_called or not self._nodes.nothing_fits():
            self.wants_round = True
        return None

    def on_run_ended(self, ended: RunEnded) -> None:
        run = ended.run
        running = self._running.pop(run, None)
        if running is None:
            return
        if self._admission is not None:
            self._unfinished_of[running.job.user] -= 1
        self._nodes.end(run, ended)
        self._stopped(run, is_stopped=False)
        self._something_changed()

    def on_run_released(self, run: RunId) -> None:
        """A run is about to end; no round is needed until `on_run_ended`."""
        if run in self._running:
            self._nodes.release(run, self._clock.now_s)
            self._continue()
            self.wakes_at_s = self._next_wake_up_s()

    def on_run_preempted(self, run: RunId) -> None:
        """A run was stopped: its job waits again, or is cancelled."""
        if run in self._running:
            self._nodes.note_stopped(run)
            self._stopped(run)
        self._something_changed()

    def on_job_acted_on(self, job: JobId, act: Act) -> None:
        """A waiting job is held or cancelled: as far as the scheduler is concerned, it never was there. It
        may also be about to wait again, once others have stopped."""
        if (withdrawn := self._nodes.withdraw(job)) is None:
            run = next((run for run, running in self._running.items() if running.job.id == job), None)
            if run is None:
                return
            del self._running[run]
            withdrawn = self._nodes.drop(run)
            self._stopped(run, is_stopped=False)
        if self._admission is not None:
            self._unfinished_of[withdrawn.user] -= 1
        self._new_jobs.pop(job, None)
        self._last_schedule = None
        self._something_changed()

    def on_run_lost(self, lost: RunLost) -> None:
        """A run was lost or failed: its job waits again.

        Nodes found down are unused until a reading says they are up.
        """
        for reading in lost.readings:
            if isinstance(reading, MachineReading):
                self._read(reading)
        if lost.run in self._running:
            self._wait_again(lost.run)
            self._stopped(lost.run, is_stopped=False)
        self._something_changed()

    def on_monitor_news(self) -> None:
        if self._monitor is None:
            return
        for reading in self._monitor.news():
            if self._nodes.read(reading) if isinstance(reading, NodeReading) else self._read(reading):
                self._something_changed()

    def on_drain_changed(self, nodes: Sequence[int], is_drained: bool, reason: str) -> None:
        for node in nodes:
            self._note(self._drained, node, is_drained)
        self._something_changed()

    def on_reservation_made(self, *given: Any) -> None:
        self._nodes.reserve(ReservationMade(*given))
        self._something_changed()

    def on_time_passed(self) -> None:
        now_s = self._clock.now_s
        self._nodes.reestimate(now_s)
        if self._asks_again_s is not None and self._asks_again_s <= now_s:
            self._asks_again_s = None
        if self._nodes.preemptor is not None:
            self._carry_out(self._nodes.preemptor.time_passed(now_s))
        self._something_changed()

    def run_round(self) -> None:
        """Call the scheduler and carry out its answer.

        Raises ScheduleRejected, with nothing of the answer carried out, if it breaks a rule.
        """
        if self._monitor is not None:
            self.on_monitor_news()
        self.wants_round = False
        now_s = self._clock.now_s
        if self._nodes.waiting:
            problem = self._nodes.problem(now_s, MappingProxyType(self._running))
            schedule = self._scheduler.schedule(problem)
            violation = problem.violation(schedule)
            if violation is not None:
                raise ScheduleRejected(violation)
            self._last_schedule = schedule
            self._give(self._started(schedule, problem.jobs, now_s))
            again_s = (schedule.ask_again_s, self._nodes.asks_again_s)
            self._asks_again_s = min((time_s for time_s in again_s if time_s is not None), default=None)
        elif self._nodes.preemptor is not None and self._nodes.preemptor.suspension.lending:
            self._give({})
        self.wakes_at_s = self._next_wake_up_s()
        if self._listener is not None and self._new_jobs:
            self._listener(self._new_jobs, self._clock.now_s)
        self._new_jobs.clear()

    def _read(self, reading: MachineReading) -> bool:
        """Mark a node as up or down. Returns False if the reading is out of date."""
        is_current = self._latest.accept(reading.machine, reading.measured_s)
        if is_current:
            self._note(self._down, reading.machine, not reading.up)
        return is_current

    def _note(self, out: set[int], node: int, is_out: bool) -> None:
        (out.add if is_out else out.discard)(node)
        self._nodes.set_available(node, node not in self._down | self._drained)

    def _something_changed(self) -> None:
        self._continue()
        nodes = self._nodes
        may_start = nodes.waiting if self._always_called else not nodes.nothing_fits()
        if may_start:
            self.wants_round = True
        self.wakes_at_s = self._next_wake_up_s()

    def _next_wake_up_s(self) -> float | None:
        times_s = self._nodes.outlived_at_s, self._asks_again_s
        return min((time_s for time_s in times_s if time_s is not None and time_s < inf), default=None)

    def _continue(self) -> None:
        """Let suspended runs continue whose CPUs are free."""
        if self._nodes.preemptor is not None:
            self._carry_out(self._nodes.preemptor.continued(self._clock.now_s))

    def _stopped(self, run: RunId, is_stopped: bool = True) -> None:
        """A run was stopped; or it is over for another reason, and others may be over with it."""
        if self._nodes.preemptor is not None:
            self._carry_out(self._nodes.preemptor.over(run, is_stopped, self._clock.now_s))
        elif is_stopped:
            self._wait_again(run)

    def _carry_out(self, steps: RunSteps) -> None:
        dispatcher = self._dispatcher
        for step, run in steps:
            match step:
                case RunStep.BEGIN:
                    dispatcher.dispatch(self._orders[run])
                case RunStep.STOP:
                    dispatcher.preempt(run)
                case RunStep.SUSPEND:
                    assert isinstance(dispatcher, SuspendingDispatcher)
                    dispatcher.suspend(run)
                    self.wants_round = True
                case RunStep.CONTINUE:
                    assert isinstance(dispatcher, SuspendingDispatcher)
                    dispatcher.resume(run)
                case RunStep.REQUEUE:
                    self._wait_again(run)
                case RunStep.CANCEL:
                    assert isinstance(dispatcher, CancellingDispatcher)
                    self._cancel(run, dispatcher)
                case RunStep.TAKE_BACK:
                    del self._running[run]
                    self._nodes.take_back(run)
                    self._last_schedule = None

    def _cancel(self, run: RunId, dispatcher: CancellingDispatcher) -> None:
        """End the job of a stopped run."""
        job = self._running.pop(run).job
        self._nodes.drop(run)
        if self._admission is not None:
            self._unfinished_of[job.user] -= 1
        dispatcher.give_up(job.id, PREEMPTED)

    def _wait_again(self, run: RunId) -> None:
        del self._running[run]
        self._nodes.requeue(run)
        self._last_schedule = None  # its reasons refer to the queue as it was

    def _started(
        self, schedule: NodeSchedule, jobs: Sequence[Job], asked_s: float
    ) -> dict[RunId, DispatchOrder]:
        """Start jobs. Returns the orders to be given. Completions move by the time passed since the scheduler
        was called."""
        now_s = self._clock.now_s
        late_s = now_s - asked_s
        nodes, running, orders = self._nodes, self._running, dict[RunId, DispatchOrder]()
        for job, start in [(jobs[start.job], start) for start in schedule.starts]:
            run = next(self._run_ids)
            if late_s:
                start = start._replace(completion_s=start.completion_s + late_s)
            _, where, end_s, _, partition = start
            shares = nodes.start(run, job, start, now_s)
            if partition and job.request is not None:
                job = job._replace(request=job.request.within(partition))
            running[run] = Running(job, ON_NODES, where, end_s)
            orders[run] = DispatchOrder(run, job, ON_NODES, where, end_s - now_s, shares)
        return orders

    def _give(self, orders: Mapping[RunId, DispatchOrder]) -> None:
        """Give orders to start runs and to stop others. A run that is displaced at once never starts."""
        self._orders = orders
        if self._nodes.preemptor is not None:
            self._carry_out(self._nodes.preemptor.decided(orders.keys(), self._clock.now_s))
        else:
            self._carry_out((RunStep.BEGIN, run) for run in orders)
