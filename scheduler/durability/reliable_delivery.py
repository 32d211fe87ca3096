"""Orders over an unreliable network, for resource managers that assume a reliable one."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from scheduler.model import DispatchOrder, JobId, MachineReading, RunId
from scheduler.ports import (
    Clock,
    JobArrived,
    MachineAnswered,
    MonitorNews,
    Notice,
    OrderReceived,
    OrderRefused,
    RunEnded,
    RunLost,
    RunPreempted,
    RunReleased,
    TimePassed,
    UnreliableDispatcher,
)
from scheduler.resource_manager import Manager, ManagerDecorator, Ports


def lead_of(order: DispatchOrder) -> int:
    """The machine that answers for a run: the first one. Raises ValueError for an order without machines."""
    for machine in order.machines:
        return machine
    raise ValueError(f"the order for run {order.run} names no machine")


LONGEST_RETRY = 16.0
"""The longest time between two tries, as a multiple of the first; each is twice the one before."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """When an order is sent again, and when a silent machine counts as lost."""

    retry_s: float = 10.0
    """Seconds without an answer after which an order is repeated; doubled with each retry, up to
    `LONGEST_RETRY` times this."""
    ping_s: float = 60.0
    """Seconds between pings of a machine that has runs."""
    pings: int = 5
    """Unanswered pings in a row after which the runs of a machine are abandoned. Pings are counted, not
    seconds: a manager that was down itself has received no answers."""


DEFAULT = Timeouts()


@dataclass(slots=True)
class _Open:
    """A run that is not over, as far as is known."""

    order: DispatchOrder
    is_received: bool = False
    is_stopping: bool = False
    retry_s: float = 0.0
    n_sent: int = 0
    """How many orders for it were sent, repeated ones included; only the timer of the last one counts."""

    @property
    def is_answered(self) -> bool:
        return self.is_received and not self.is_stopping


class ReliableDelivery(ManagerDecorator):
    """Stands between a resource manager and an unreliable network: the manager's orders arrive, each run that
    it has ordered is reported to be over once, and jobs that are submitted twice are accepted once.

    Orders are repeated until they are answered. If the machine that leads a run does not answer
    `Timeouts.pings` pings, the run is abandoned: to the manager it is lost, and all its machines are down
    until it is known to be over. So a job has two runs at a time only if one of them was abandoned, and does
    not count. The cost of a message does not depend on the number of machines or runs.
    """

    def __init__(self, ports: Ports, make: Callable[[Ports], Manager], timeouts: Timeouts = DEFAULT) -> None:
        """`make` makes the manager, given its ports."""
        assert hasattr(ports.dispatcher, "abandon"), "the dispatcher is an UnreliableDispatcher"
        self._network: UnreliableDispatcher = ports.dispatcher  # type: ignore[assignment]
        self._clock: Clock = ports.clock
        self._timeouts = timeouts
        self._open: dict[RunId, _Open] = {}
        self._abandoned: dict[RunId, DispatchOrder] = {}
        self._led: defaultdict[int, dict[RunId, None]] = defaultdict(dict)
        """The open or abandoned runs that each machine leads, in order."""
        self._unanswered: dict[int, int] = {}
        """The number of pings that each machine with runs has not answered."""
        self._timers: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._n_timers = 0
        self._answers: dict[JobId, str | None] = {}
        """The answers to the submitted jobs."""
        self._states = _MachineStates(ports.monitor)
        monitor: Any = self._states  # of any kind of ports
        self._manager = make(replace(ports, dispatcher=self, monitor=monitor))

    @property
    def wakes_at_s(self) -> float | None:  # type: ignore[override]
        wakes_at_s = self._manager.wakes_at_s
        if not self._timers:
            return wakes_at_s
        timer_s = self._timers[0][0]
        return timer_s if wakes_at_s is None else min(timer_s, wakes_at_s)

    def handle(self, notice: Notice) -> str | None:
        match notice:
            case JobArrived(job):
                if job.id not in self._answers:
                    self._answers[job.id] = self._manager.handle(notice)
                return self._answers[job.id]
            case RunReleased(run):
                if run in self._open:
                    self._manager.handle(notice)
            case OrderReceived(run):
                if (known := self._open.get(run)) is not None:
                    known.is_received = True
                    self._heard_from(known.order)
            case RunEnded(run):
                if self._is_over(run):
                    # The clock of the machine may be another one; how long the run took, it knows.
                    self._manager.handle(notice._replace(ended_s=self._clock.now_s))
            case RunPreempted(run):
                if self._is_over(run):
                    self._manager.handle(notice)
            case RunLost(run, _, found_down):
                if self._is_over(run):
                    self._states.read(notice.readings)
                    if not found_down:  # else its time is that of readings, which come from another clock
                        notice = notice._replace(lost_s=self._clock.now_s)
                    self._manager.handle(notice)
            case OrderRefused(run):
                known = self._open.get(run)
                if self._is_over(run):
                    assert known is not None
                    self._lost(known.order)
                    self._in(self._timeouts.retry_s, self._release, known.order.machines)
            case MachineAnswered(machine):
                self._machine_answered(machine)
            case MonitorNews():
                self._manager.handle(notice)
            case TimePassed():
                self._time_passed()
        return None

    def _machine_answered(self, machine: int) -> None:
        if machine not in self._unanswered:
            return
        self._unanswered[machine] = 0
        for run in self._led[machine]:
            if run in self._abandoned:
                self._network.abandon(run)

    def _time_passed(self) -> None:
        now_s = self._clock.now_s
        while self._timers and self._timers[0][0] <= now_s:
            _, _, due, subject = heapq.heappop(self._timers)
            due(subject)
        wakes_at_s = self._manager.wakes_at_s
        if wakes_at_s is not None and wakes_at_s <= now_s:
            self._manager.handle(TimePassed())

    def dispatch(self, order: DispatchOrder) -> None:
        self._open[order.run] = _Open(order)
        lead = lead_of(order)
        if lead not in self._unanswered:
            self._unanswered[lead] = 0
            self._in(self._timeouts.ping_s, self._ping, lead)
        self._led[lead][order.run] = None
        self._send(order.run, self._timeouts.retry_s)

    def preempt(self, run: RunId) -> None:
        known = self._open.get(run)
        if known is None or known.is_stopping:
            return
        known.is_stopping = True
        self._send(run, self._timeouts.retry_s)

    def give_up(self, job: JobId, why: str) -> None:
        self._network.give_up(job, why)

    def _send(self, run: RunId, retry_s: float) -> None:
        """Send the latest order for an open run, again after `retry_s` unless it is answered."""
        known = self._open[run]
        known.retry_s = retry_s
        known.n_sent += 1
        if known.is_stopping:
            self._network.preempt(run)
        else:
            self._network.dispatch(known.order)
        self._in(retry_s, self._retry, (run, known.n_sent))

    def _retry(self, sent: tuple[RunId, int]) -> None:
        run, n_sent = sent
        known = self._open.get(run)
        if known is None or known.is_answered or known.n_sent != n_sent:
            return
        self._send(run, min(2.0 * known.retry_s, LONGEST_RETRY * self._timeouts.retry_s))

    def _ping(self, machine: int) -> None:
        runs = self._led[machine]
        if not runs:
            del self._led[machine], self._unanswered[machine]
            return
        if self._unanswered[machine] >= self._timeouts.pings:
            for run in [run for run in runs if run in self._open]:
                order = self._abandoned[run] = self._open.pop(run).order
                self._network.abandon(run)
                self._lost(order)
        self._unanswered[machine] += 1
        self._network.ping(machine)
        self._in(self._timeouts.ping_s, self._ping, machine)

    def _lost(self, order: DispatchOrder) -> None:
        self._states.hold(order.machines)
        self._manager.handle(MonitorNews())
        self._manager.handle(RunLost(order.run, self._clock.now_s))

    def _is_over(self, run: RunId) -> bool:
        """Note that a run is over. Returns whether that is news for the manager."""
        self._network.acknowledge(run)
        known = self._open.pop(run, None)
        if known is not None:
            self._heard_from(known.order)
            del self._led[lead_of(known.order)][run]
            return True
        order = self._abandoned.pop(run, None)
        if order is not None:
            self._heard_from(order)
            del self._led[lead_of(order)][run]
            self._release(order.machines)
        return False

    def _release(self, machines: Sequence[int]) -> None:
        self._states.release(machines)
        self._manager.handle(MonitorNews())

    def _heard_from(self, order: DispatchOrder) -> None:
        self._unanswered[lead_of(order)] = 0

    def _in(self, wait_s: float, due: Callable[[Any], None], subject: Any) -> None:
        self._n_timers += 1
        heapq.heappush(self._timers, (self._clock.now_s + wait_s, self._n_timers, due, subject))


class _MachineStates:
    """A monitor that reports machines as down while they are held, too.

    Readings have the times of the monitor that is watched, since the manager's own clock may be another
    one."""

    def __init__(self, monitor: Any) -> None:
        self._monitor = monitor
        self._held: Counter[int] = Counter()
        """The number of reasons not to use each machine: abandoned runs, refused orders."""
        self._latest: dict[int, MachineReading] = {}
        self._new: list[Any] = []

    def hold(self, machines: Sequence[int]) -> None:
        for machine in machines:
            self._held[machine] += 1
            if self._held[machine] == 1:
                self._new.append(replace(self._state_of(machine), up=False))

    def release(self, machines: Sequence[int]) -> None:
        for machine in machines:
            self._held[machine] -= 1
            if not self._held[machine]:
                self._new.append(self._state_of(machine))

    def read(self, readings: Iterable[Any]) -> list[Any]:
        """The readings without those of held machines."""
        return [it for it in readings if not isinstance(it, MachineReading) or self._is_news(it)]

    def news(self) -> Sequence[Any]:
        new, self._new = self._new, []
        return new if self._monitor is None else [*new, *self.read(self._monitor.news())]

    def _is_news(self, reading: MachineReading) -> bool:
        if reading.measured_s >= self._state_of(reading.machine).measured_s:
            self._latest[reading.machine] = reading
        return not self._held[reading.machine]

    def _state_of(self, machine: int) -> MachineReading:
        return self._latest.get(machine) or MachineReading(machine, True, -inf)
