"""Runs a resource manager on this computer in real time: its clock, its monitor of cores, and the loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from math import inf

import psutil

from scheduler.model import Job, JobId, MachineReading
from scheduler.notices import JobArrived, MonitorNews, RunEnded, RunPreempted, TimePassed
from scheduler.ports import Clock
from scheduler.resource_manager import Manager
from scheduler.rules import MAKES_PROGRESS, ScheduleRejected
from sil.live.processes import Over, Runs
from sil.trace.facts import Fact
from sil.trace.recorder import TraceRecorder
from sil.world.events import RoundPolicy
from sil.world.guard.faults import SchedulerFault, stuck

LOOK_EVERY_S = 0.5
"""Interval of the monitor."""


def usable_cores() -> list[int]:
    """The cores that this process may run on."""
    return sorted(psutil.Process().cpu_affinity() or ())


class WallClock:
    """Seconds since the clock was made."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began_s


class CoreMonitor:
    """A core is up while this process may run on it, which an administrator can change."""

    def __init__(
        self, cores: Sequence[int], clock: Clock, usable: Callable[[], Sequence[int]] = usable_cores
    ) -> None:
        self._cores = cores
        self._clock = clock
        self._usable = usable
        self._up = [True] * len(cores)
        self._unread: list[MachineReading] = []

    def look(self) -> bool:
        """Take readings. Returns whether one has changed."""
        usable, now_s = set(self._usable()), self._clock.now_s
        for j, core in enumerate(self._cores):
            if self._up[j] != (core in usable):
                self._up[j] = not self._up[j]
                self._unread.append(MachineReading(j, self._up[j], now_s))
        return bool(self._unread)

    def news(self) -> Sequence[MachineReading]:
        unread, self._unread = self._unread, []
        return unread


class LiveWorld:
    """This computer, as everything outside the resource manager; the counterpart of
    `sil.world.harness.World`. `on_over` is called for each run that has ended."""

    def __init__(
        self,
        clock: Clock,
        trace: TraceRecorder,
        processes: Runs,
        monitor: CoreMonitor,
        rounds: RoundPolicy,
        on_over: Callable[[Over], None] = lambda over: None,
    ) -> None:
        self.clock = clock
        self.trace = trace
        self.monitor = monitor
        self._processes = processes
        self._rounds = rounds
        self._on_over = on_over
        self._unfinished: set[JobId] = set()
        self._next_look_s = 0.0
        self._last_round_s: float | None = None
        self._round_s = inf
        """Time of the next round; infinite if none is requested."""

    def run(self, jobs: Iterable[Job], manager: Manager) -> None:
        """Run jobs, in order of arrival, until all that were accepted have ended; no process is left. Raises
        SchedulerFault if the system under test breaks a rule, and UserError."""
        self._manager = manager
        self._arrivals = iter(jobs)
        self._next_arrival = next(self._arrivals, None)
        try:
            while self._next_arrival is not None or self._unfinished:
                self._check_progress()
                for over in self._processes.over(self._next_s() - self.clock.now_s):
                    self._report(over)
                self._look()
                self._let_arrive()
                wakes_at_s = manager.wakes_at_s
                if wakes_at_s is not None and wakes_at_s <= self.clock.now_s:
                    manager.handle(TimePassed())
                self._appoint_round()
                if self._round_s <= self.clock.now_s:
                    self._run_round()
        finally:
            self._processes.end_all()

    def _next_s(self) -> float:
        """The time of the next action, unless a run ends before."""
        wakes_at_s, arrival = self._manager.wakes_at_s, self._next_arrival
        return min(
            self._next_look_s,
            inf if wakes_at_s is None else wakes_at_s,
            inf if arrival is None else arrival.arrival_s,
            self._round_s,
        )

    def _appoint_round(self) -> None:
        if self._round_s == inf and self._manager.wants_round:
            self._round_s = self._rounds.due_s(self.clock.now_s, self._last_round_s)

    def _report(self, over: Over) -> None:
        run, job = over.order.run, over.order.job.id
        if over.was_killed:
            self._manager.handle(RunPreempted(run))
        else:
            self._unfinished.discard(job)
            self._manager.handle(RunEnded(run, self.clock.now_s))
        self._on_over(over)

    def _look(self) -> None:
        if self._next_look_s <= self.clock.now_s:
            self._next_look_s = self.clock.now_s + LOOK_EVERY_S
            if self.monitor.look():
                self._manager.handle(MonitorNews())

    def _let_arrive(self) -> None:
        while self._next_arrival is not None and self._next_arrival.arrival_s <= self.clock.now_s:
            job, self._next_arrival = self._next_arrival, next(self._arrivals, None)
            self.trace.note_arrival(self.clock.now_s, job)
            refusal = self._manager.handle(JobArrived(job))
            if refusal is None:
                self._unfinished.add(job.id)
            else:
                self.trace.note(self.clock.now_s, Fact.JOB_REFUSED, job=job.id, detail=refusal)

    def _run_round(self) -> None:
        self._last_round_s, self._round_s = self._round_s, inf
        try:
            self._manager.run_round()
        except ScheduleRejected as rejected:
            raise SchedulerFault.of(rejected.violation, self.clock.now_s) from rejected
        self._appoint_round()

    def _check_progress(self) -> None:
        """Raise SchedulerFault if nothing can happen any more, since the scheduler has forgotten a job."""
        manager = self._manager
        something_comes = self._next_arrival is not None or not self._processes.is_idle
        if something_comes or self._round_s < inf or manager.wakes_at_s is not None:
            return
        waiting = manager.why_waiting()
        message = stuck("jobs remain and nothing can happen any more", waiting)
        job = min(waiting or self._unfinished)
        raise SchedulerFault(MAKES_PROGRESS, message, self.clock.now_s, job)
