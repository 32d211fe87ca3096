"""Simulated time: the clock, events and their order, and when rounds take place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from math import floor, inf

from scheduler.model import Job, JobId, RunId
from scheduler.ports import (
    DrainChanged,
    JobActedOn,
    JobArrived,
    MonitorNews,
    ReservationMade,
    RunLost,
    RunPreempted,
)


class SimClock:
    """The clock of a simulated site: `now_s` seconds since the start of the experiment.

    The event loop sets it; the event queue ensures that time never goes back.
    """

    __slots__ = ("_run_world_until", "now_s")

    def __init__(self) -> None:
        self.now_s = 0.0
        self._run_world_until: Callable[[float], None] | None = None

    def on_wait(self, run_world_until: Callable[[float], None]) -> None:
        """Set what runs the world while the system under test is busy until a time."""
        self._run_world_until = run_world_until

    def wait_until(self, time_s: float) -> None:
        """The system under test is busy until `time_s`; without effect if that is in the past."""
        if time_s > self.now_s:
            if self._run_world_until is not None:
                self._run_world_until(time_s)
            self.now_s = time_s


class Event:
    """Something that happens in the simulated world, and of which the manager gets no notice as such."""

    __slots__ = ()


NodeNotice = DrainChanged | ReservationMade
AnyEvent = Event | JobArrived | JobActedOn | RunPreempted | RunLost | MonitorNews | NodeNotice
"""These notices are events, too: `JobArrived` of a job which is not part of the workload, and `RunLost` of an
order which needs something that is down."""


@dataclass(slots=True)
class EndDue(Event):
    """A run ends, unless it was stopped before or its end has moved."""

    run: RunId


@dataclass(slots=True)
class ReleaseDue(Event):
    """A run ends now and its nodes are free; its `EndDue` follows."""

    run: RunId


Subject = int | str
"""What may be down: a machine, by index, or an interconnect, by name."""


@dataclass(slots=True)
class StateChange(Event):
    """Machines and interconnects go down together, perhaps permanently, or come back together."""

    subjects: tuple[Subject, ...]
    up: bool
    permanently: bool = False


@dataclass(slots=True)
class LocalChanged(Event):
    """The local users of a node demand another share of its CPU, other memory, or come or leave."""

    node: int
    cpu: float
    memory_mb: float
    user_is_there: bool


@dataclass(slots=True)
class ControlDue(Event):
    """The coscheduler of a node reacts to an earlier change there."""

    node: int


@dataclass(slots=True)
class AdvanceDue(Event):
    """Nodes that are simulated in detail go on, once all else of the instant is done."""


@dataclass(slots=True)
class SampleDue(Event):
    """A node's monitor takes its next sample."""

    node: int


@dataclass(slots=True)
class MessageDue(Event):
    """A message between manager and machines arrives, or one of them tries again."""

    act: Callable[[], object]


@dataclass(slots=True)
class WakeUp(Event):
    """The time that the resource manager has set in `wakes_at_s`."""


@dataclass(slots=True)
class ArrivalDue(Event):
    """The next job of the workload arrives."""


@dataclass(slots=True)
class JobGivenUp(Event):
    """The resource manager drops a job that is not complete."""

    job: JobId


@dataclass(slots=True)
class RoundDue(Event):
    """The scheduler's next round."""


Order = Mapping[type[AnyEvent], int]
"""The rank of each kind of event among simultaneous ones; within a kind, events are first in, first out."""

_RUN_NOTICES = (EndDue, ReleaseDue, RunLost, RunPreempted)
_NODES = (DrainChanged, ReservationMade)
_CHANGES = (MessageDue, StateChange, *_NODES, LocalChanged, ControlDue, SampleDue, MonitorNews)


def _order(*kinds: type[AnyEvent]) -> Order:
    return {kind: rank for rank, kind in enumerate((*kinds, AdvanceDue))}


DEFAULT = _order(*_RUN_NOTICES, *_CHANGES, WakeUp, ArrivalDue, JobArrived, JobActedOn, JobGivenUp, RoundDue)
"""The manager receives all notices of an instant; then there is one round."""

ARCHIVE = _order(
    *(RoundDue, ReleaseDue, WakeUp, *_CHANGES, ArrivalDue, JobArrived, JobActedOn),
    *(EndDue, RunLost, RunPreempted, JobGivenUp),
)
"""All runs that end as estimated release their nodes; then jobs arrive; then completions are reported, in
order of start; with a round after each. This is the order of the simulator used by Gaussier, Glesser, Reis
and Trystram, "Improving Backfilling by using Machine Learning to Predict Running Times", SC'15.
"""

BATSIM = _order(ArrivalDue, JobArrived, JobActedOn, *_RUN_NOTICES, *_CHANGES, WakeUp, JobGivenUp, RoundDue)
"""All events of an instant are in one message, first arrivals, then completions; then there is one round."""

ORDERS: Mapping[str, Order] = {"default": DEFAULT, "archive": ARCHIVE, "batsim": BATSIM}


class EventQueue:
    """Events in order of (time, rank, sequence); at most one round, one wake-up and one arrival."""

    def __init__(self, order: Order = DEFAULT) -> None:
        self._rank = order
        self.has_releases = order[ReleaseDue] < order[EndDue]
        """Whether runs release their nodes before their completion is reported."""
        self._heap: list[tuple[float, int, int, AnyEvent]] = []
        self._pushed = 0
        self._now_s = -inf
        self._round = self._wake_up = self._arrival = _NEVER
        self.submissions = 0
        """How many jobs are still to arrive that are not part of the workload."""

    def __len__(self) -> int:
        appointed = (self._round, self._wake_up, self._arrival)
        return len(self._heap) + sum(event is not _NEVER for event in appointed)

    def push(self, time_s: float, event: AnyEvent) -> None:
        self._pushed += 1
        heappush(self._heap, (time_s, self._rank[type(event)], self._pushed, event))

    def submit(self, time_s: float, job: Job) -> None:
        """Let a job arrive that is not part of the workload."""
        self.submissions += 1
        self.push(time_s, JobArrived(job))

    def appoint_round(self, time_s: float) -> None:
        """Set or move the next round."""
        self._round = (time_s, self._rank[RoundDue], 0, _ROUND)

    def appoint_arrival(self, time_s: float) -> None:
        """Set the arrival of the next job of the workload."""
        self._arrival = (time_s, self._rank[ArrivalDue], 0, _ARRIVAL)

    def appoint_wake_up(self, time_s: float | None) -> None:
        """Set, move or (None) cancel the wake-up of the resource manager."""
        self._wake_up = _NEVER if time_s is None else (time_s, self._rank[WakeUp], 0, _WAKE_UP)

    @property
    def next_s(self) -> float:
        """The time of the next event; infinite if there is none."""
        appointed_s = min(self._round[0], self._wake_up[0], self._arrival[0])
        return min(appointed_s, self._heap[0][0]) if self._heap else appointed_s

    @property
    def next_key(self) -> tuple[float, int]:
        """The time of the next event, and its rank among simultaneous ones."""
        appointed = min(self._round, self._wake_up, self._arrival)[:2]
        return min(appointed, self._heap[0][:2]) if self._heap else appointed

    def pop(self) -> tuple[float, AnyEvent]:
        """The next event. Raises IndexError if there is none, ValueError for one in the past."""
        first = self._round if self._round < self._wake_up else self._wake_up
        if self._arrival < first:
            first = self._arrival
        if first is _NEVER or (self._heap and self._heap[0] < first):
            first = heappop(self._heap)
        elif first is self._arrival:
            self._arrival = _NEVER
        elif first is self._round:
            self._round = _NEVER
        else:
            self._wake_up = _NEVER
        time_s, _, _, event = first
        if time_s < self._now_s:
            raise ValueError(f"time cannot go back from {self._now_s} s to {time_s} s")
        self._now_s = time_s
        return time_s, event


_ROUND, _ARRIVAL, _WAKE_UP = RoundDue(), ArrivalDue(), WakeUp()
_NEVER: tuple[float, int, int, AnyEvent] = (inf, 0, 0, _ROUND)


@dataclass(frozen=True, slots=True)
class Rounds:
    """At once when they are requested, but at least `least_distance_s` after the previous one; or else at the
    next multiple of a quantum, as in Collins and George (10 s)."""

    least_distance_s: float = 0.0
    quantum_s: float | None = None

    def due_s(self, now_s: float, last_s: float | None) -> float:
        """The time of the round requested now; `last_s` is the time of the previous round, if any."""
        if self.quantum_s is None:
            return now_s if last_s is None else max(now_s, last_s + self.least_distance_s)
        boundary = floor(now_s / self.quantum_s)
        while boundary * self.quantum_s < now_s or boundary * self.quantum_s == last_s:
            boundary += 1
        return boundary * self.quantum_s
