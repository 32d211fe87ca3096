"""A dependable manager at the end of a line: what it sends is noted, and nothing happens by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scheduler.durability.journal import JournalEntry
from scheduler.durability.reliable_delivery import ReliableDelivery, Timeouts
from scheduler.free_nodes.runtime_estimates import UserEstimates
from scheduler.model import ON_NODES, DispatchOrder, Job, JobId, MachineReading, RunId
from scheduler.ports import MonitorNews, RunEnded, RunLost, TimePassed
from scheduler.resource_manager import OnFreeNodes, Ports, ResourceManager
from tests.scheduler.fakes import HandClock, ScriptedMonitor

Sent = tuple[float, str, int]
"""When, which method of the dispatcher, and the run (or machine, or job)."""


class Wire:
    """An `UnreliableDispatcher` on which everything is lost."""

    def __init__(self, clock: HandClock) -> None:
        self.sent: list[Sent] = []
        self._clock = clock

    def dispatch(self, order: DispatchOrder) -> None:
        self._note("dispatch", order.run)

    def preempt(self, run: RunId) -> None:
        self._note("preempt", run)

    def abandon(self, run: RunId) -> None:
        self._note("abandon", run)

    def acknowledge(self, run: RunId) -> None:
        self._note("acknowledge", run)

    def ping(self, machine: int) -> None:
        self._note("ping", machine)

    def give_up(self, job: JobId, why: str) -> None:
        self._note("give_up", job)

    def times_s(self, kind: str) -> list[float]:
        return [time_s for time_s, sent, _ in self.sent if sent == kind]

    def _note(self, kind: str, about: int) -> None:
        self.sent.append((self._clock.now_s, kind, about))


class Noting(ResourceManager):
    """Gives the orders that a test gives, and notes its notices."""

    def __init__(self, ports: Ports) -> None:
        self.dispatcher = ports.dispatcher
        self.told: list[tuple[str, int]] = []
        self.up: dict[int, bool] = {}
        """The last reading of each machine."""
        self.completions: list[RunEnded] = []
        self._monitor = ports.monitor

    def on_job_arrived(self, job: Job) -> str | None:
        self.told.append(("arrived", job.id))
        return "too late" if job.arrival_s > 0.0 else None

    def on_run_ended(self, completion: RunEnded) -> None:
        self.completions.append(completion)
        self.told.append(("ended", completion.run))

    def on_run_preempted(self, run_id: RunId) -> None:
        self.told.append(("preempted", run_id))

    def on_run_lost(self, loss: RunLost) -> None:
        self.told.append(("lost", loss.run))

    def on_monitor_news(self) -> None:
        assert self._monitor is not None
        self.up |= {
            reading.machine: reading.up
            for reading in self._monitor.news()
            if isinstance(reading, MachineReading)
        }

    def run_round(self) -> None:
        self.wants_round = False


class Line:
    """`delivery` stands between the `manager`, which does what tests say, and the `wire`."""

    def __init__(self, timeouts: Timeouts = Timeouts(), n_machines: int = 4) -> None:  # noqa: B008
        self.clock = HandClock()
        self.wire = Wire(self.clock)
        self.monitor = ScriptedMonitor()
        self.delivery = ReliableDelivery(self.ports(n_machines), self._made, timeouts)

    def ports(self, n_machines: int) -> OnFreeNodes:
        return OnFreeNodes(self.clock, self.wire, n_machines, UserEstimates(), self.monitor)

    def _made(self, ports: Ports) -> ResourceManager:
        self.manager = Noting(ports)
        return self.manager

    def start(self, run: int, machines: Sequence[int] = (0,)) -> None:
        self.manager.dispatcher.dispatch(order(run, machines))

    def stop(self, run: int) -> None:
        self.manager.dispatcher.preempt(RunId(run))

    def until(self, time_s: float) -> None:
        """Time passes; timers that are due go off."""
        while (wakes_at_s := self.delivery.wakes_at_s) is not None and wakes_at_s <= time_s:
            self.clock.now_s = max(self.clock.now_s, wakes_at_s)
            self.delivery.handle(TimePassed())
        self.clock.now_s = time_s

    def ends(self, run: int) -> None:
        """The notice that a run has ended arrives."""
        self.delivery.handle(RunEnded(RunId(run), self.clock.now_s))

    def reads(self, machine: int, up: bool, measured_s: float) -> None:
        self.monitor.unread.append(MachineReading(machine, up, measured_s))
        self.delivery.handle(MonitorNews())


def order(run: int, machines: Sequence[int] = (0,)) -> DispatchOrder:
    """The order for a run, of the job with the same number."""
    return DispatchOrder(RunId(run), Job(JobId(run), "work", 0.0), ON_NODES, tuple(machines), 60.0)


class Kept:
    """A journal in memory. `before_append` is called before an entry is durable."""

    def __init__(self, before_append: Callable[[JournalEntry], None] = lambda entry: None) -> None:
        self.kept: list[JournalEntry] = []
        self.before_append = before_append

    def append(self, entry: JournalEntry) -> None:
        self.before_append(entry)
        self.kept.append(entry)

    def entries(self) -> Sequence[JournalEntry]:
        return tuple(self.kept)
