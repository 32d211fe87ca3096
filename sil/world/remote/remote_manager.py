"""A resource manager behind an unreliable network, which may crash and restart."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from scheduler.durability.journalled_manager import JournalMismatch
from scheduler.model import ExecutionRecord, Job, JobId
from scheduler.ports import (
    JobArrived,
    MachineAnswered,
    MonitorNews,
    Notice,
    OrderReceived,
    RunEnded,
    RunLost,
    RunPreempted,
    RunReleased,
    TimePassed,
)
from scheduler.resource_manager import Manager, Ports
from scheduler.rules import MAKES_PROGRESS
from sil.trace.facts import Fact
from sil.world.events import MessageDue
from sil.world.guard.faults import KEEPS_ITS_JOURNAL, SchedulerFault, stuck
from sil.world.guard.values import Places
from sil.world.harness import RemainingManager, World
from sil.world.remote.agents import AgentDispatcher, Agents
from sil.world.remote.network import Crashes, ManagerClock, ManagerCrashed, Network

MAX_MESSAGES_WITHOUT_PROGRESS = 100_000
"""More in a row, without an arrival, the end of a run or a change of a machine, are an endless conversation,
unless time passes between them and a run will end or no job waits."""

MIN_STEP_S = 1e-3
"""Time passes if messages are this far apart on average; a large site has many."""

Make = Callable[[Ports], Manager]


class RemoteManager(RemainingManager):
    """Stands in for the resource manager in the event loop: passes its notices to the agents of machines, and
    the agents' messages to the manager, which it restarts after a crash.

    Submissions of jobs reach a manager that runs; they are repeated until it has answered, as a user
    would."""

    def __init__(
        self,
        world: World,
        ports: Ports,
        make: Make,
        network: Network,
        crashes: Crashes | None = None,
        clock: ManagerClock | None = None,
    ) -> None:
        """`make` makes a manager for such ports, also after a crash. Its clock is that of the world unless
        another `clock` is given."""
        self._world = world
        self._clock = world.clock
        self._unfinished: set[JobId] = set()
        """Jobs that have arrived, and whose end the manager does not know."""
        self.agents = Agents(world, network, self._tell)
        strike = (lambda: None) if crashes is None else crashes.strike
        is_known = self._unfinished.discard  # the manager knows that a job is complete
        self.orders = AgentDispatcher(world, network, strike, self.agents, Places(ports), is_known)
        self._monitor = _ReadAgain(ports.monitor)
        self._manager_clock = clock or ManagerClock(world.clock)
        for jump_s in self._manager_clock.jumps_s:
            world.events.push(jump_s, MessageDue(lambda: None))  # its next wake-up is at another time then
        monitor: Any = self._monitor  # of any kind of ports
        self._ports = _once_each_job(
            replace(ports, clock=self._manager_clock, dispatcher=self.orders, monitor=monitor), strike
        )
        self._make = make
        self._crashes = crashes
        self._manager: Manager | None = None
        self._not_submitted: dict[JobId, Job] = {}
        self._calls: deque[Notice | None] = deque()
        self._is_called = False
        self._without_progress, self._progress_s = 0, 0.0
        """The number of calls since the last progress, and its time."""
        self._start()

    @property
    def wants_round(self) -> bool:  # type: ignore[override]
        return self._manager is not None and self._manager.wants_round

    @property
    def wakes_at_s(self) -> float | None:  # type: ignore[override]
        if self._manager is None or (wakes_at_s := self._manager.wakes_at_s) is None:
            return None
        return self._manager_clock.world_time_s(wakes_at_s)

    def why_waiting(self) -> Mapping[JobId, str]:
        return {} if self._manager is None else self._manager.why_waiting()

    def handle(self, notice: Notice) -> str | None:
        if not isinstance(notice, TimePassed | RunReleased):
            self._note_progress()
        if isinstance(notice, JobArrived):
            self._unfinished.add(notice.job.id)
            self._not_submitted[notice.job.id] = notice.job
            return self._submit(notice.job)
        if isinstance(notice, RunEnded | RunPreempted | RunLost):
            self.agents.over(notice)
        elif isinstance(notice, MonitorNews | TimePassed):
            self._tell(notice)
        return None

    def run_round(self) -> None:
        self._tell(None)

    def is_settled(self) -> bool:
        """Whether nothing remains: a manager that is down may still have to report what has ended."""
        return not self._unfinished and not self.agents.active and self._manager is not None

    def _submit(self, job: Job) -> str | None:
        refusal = self._tell(JobArrived(job))
        if self._manager is not None:
            self._not_submitted.pop(job.id, None)
            if refusal is not None:
                self._unfinished.discard(job.id)
        return refusal

    def submit_again(self, jobs: Iterable[Job]) -> None:
        """Users submit jobs again that have arrived: the manager has their answers."""
        for job in jobs:
            self._tell(JobArrived(job))

    def _tell(self, notice: Notice | None) -> str | None:
        """Hand a notice over to the manager, or have it run a round: None. A call during another one, which
        takes simulated time, follows it."""
        manager = self._manager
        if manager is None:
            return None
        if self._is_called:
            self._calls.append(notice)
            return None
        self._check_progress()
        self._is_called = True
        try:
            result = manager.run_round() if notice is None else manager.handle(notice)
        except ManagerCrashed:
            self._crashed()
            return None
        finally:
            self._is_called = False
        self._monitor.forget()
        if isinstance(notice, MachineAnswered):
            self.orders.note_answer(notice.machine)
        elif isinstance(notice, OrderReceived):
            self.orders.note_started(notice.run)
        while self._calls:
            self._tell(self._calls.popleft())
        return result

    def _crashed(self) -> None:
        assert self._crashes is not None
        self._manager = None
        self._calls.clear()
        self._monitor.read_again()
        now_s = self._clock.now_s
        self._world.trace.note(now_s, Fact.MANAGER_DOWN)
        self._world.events.push(now_s + self._crashes.down_s, MessageDue(self._restart))

    def _restart(self) -> None:
        with self._world.trace.muted():  # what is decided again is in the trace
            self._start()
        if self._manager is None:
            return  # it has crashed again
        self._world.trace.note(self._clock.now_s, Fact.MANAGER_UP)
        self._tell(MonitorNews())
        for job in list(self._not_submitted.values()):
            if self._manager is not None and (refusal := self._submit(job)) is not None:
                self._world.dispatcher.give_up(job.id, refusal)

    def _start(self) -> None:
        try:
            self._manager = self._make(self._ports)
        except ManagerCrashed:
            self._crashed()
        except JournalMismatch as mismatch:
            raise SchedulerFault(KEEPS_ITS_JOURNAL, str(mismatch), self._clock.now_s) from mismatch

    def _note_progress(self) -> None:
        self._without_progress, self._progress_s = 0, self._clock.now_s

    def _check_progress(self) -> None:
        self._without_progress += 1
        if self._without_progress <= MAX_MESSAGES_WITHOUT_PROGRESS:
            return
        now_s, n = self._clock.now_s, self._without_progress - 1
        if now_s - self._progress_s >= n * MIN_STEP_S and (self.agents.active or not self._unfinished):
            self._note_progress()
            return
        waiting = self.why_waiting()
        job = min(waiting or self._unfinished, default=None)
        message = stuck(f"{n} messages went by and no job arrived or ended", waiting)
        raise SchedulerFault(MAKES_PROGRESS, message, now_s, job)


class _ReadAgain:
    """A monitor whose readings are read again by a manager that crashed while it read them."""

    def __init__(self, monitor: Any) -> None:
        self._monitor = monitor
        self._read: list[Any] = []
        self._again: list[Any] = []

    def news(self) -> Sequence[Any]:
        new, self._again = [*self._again, *(() if self._monitor is None else self._monitor.news())], []
        self._read += new
        return new

    def forget(self) -> None:
        self._read.clear()

    def read_again(self) -> None:
        self._again, self._read = [*self._read, *self._again], []


def _once_each_job(ports: Ports, strike: Callable[[], None]) -> Ports:
    """A manager that restarts may report the run of a job again; it may crash before it reports one."""
    for name, reports in (("experience", "record"), ("run_times", "learn")):
        if (port := getattr(ports, name, None)) is not None:
            once: dict[str, Any] = {name: _OnceEachJob(port, reports, strike)}
            return replace(ports, **once)
    return ports


class _OnceEachJob:
    """A port whose method `reports` is passed on once for each job."""

    def __init__(self, port: Any, reports: str, strike: Callable[[], None]) -> None:
        self._port = port
        self._strike = strike
        self._reported: set[JobId] = set()
        setattr(self, reports, partial(self._report, getattr(port, reports)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    def _report(self, report: Callable[..., None], first: Job | ExecutionRecord, *others: Any) -> None:
        self._strike()
        job = first.job if isinstance(first, ExecutionRecord) else first
        if job.id not in self._reported:
            self._reported.add(job.id)
            report(first, *others)
