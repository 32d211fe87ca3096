"""Events and their order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

from scheduler.model import Job, JobId, RunId


@dataclass(slots=True)
class RunEnded:
    run: RunId


@dataclass(slots=True)
class RunReleased:
    """A run ends now, and its nodes may be used; its end is told when that has its turn."""

    run: RunId


@dataclass(slots=True)
class OrderOvertaken:
    """A dispatch order found something it needs down: machines by index, interconnects by name."""

    run: RunId
    found_down: tuple[int | str, ...]


@dataclass(slots=True)
class RunPreempted:
    run: RunId


@dataclass(slots=True)
class StateChange:
    """A machine (by index) or an interconnect (by name) goes down, perhaps for ever, or comes back."""

    subject: int | str
    up: bool
    for_ever: bool = False


@dataclass(slots=True)
class LocalChanged:
    """The local users of a node demand another share of its CPU, other memory, or are there or gone."""

    node: int
    cpu: float
    memory_mb: float
    user_is_there: bool


@dataclass(slots=True)
class ControlDue:
    """The coscheduler of a node notices what changed there some time ago."""

    node: int


@dataclass(slots=True)
class SampleDue:
    """A node's monitor takes its next sample."""

    node: int


@dataclass(slots=True)
class MonitorNews:
    """A monitor has something to tell."""


@dataclass(slots=True)
class WakeUp:
    """The resource manager wanted to be told of this time."""


@dataclass(slots=True)
class ArrivalDue:
    """The next job of the workload arrives."""


@dataclass(slots=True)
class JobArrived:
    """A job arrives that is not of the workload."""

    job: Job


@dataclass(slots=True)
class JobGivenUp:
    """The resource manager is done with a job that was not done."""

    job: JobId


@dataclass(slots=True)
class RoundDue:
    """The scheduler's next round."""


Event = (
    RunEnded
    | RunReleased
    | OrderOvertaken
    | RunPreempted
    | StateChange
    | LocalChanged
    | ControlDue
    | SampleDue
    | MonitorNews
    | WakeUp
    | ArrivalDue
    | JobArrived
    | JobGivenUp
    | RoundDue
)

Order = Mapping[type[Event], int]
"""Which kinds of events of one instant come first; within a kind, the one that was pushed first."""


def _in_order(*kinds: type[Event]) -> Order:
    return {kind: rank for rank, kind in enumerate(kinds)}


DEFAULT: Order = _in_order(
    RunEnded,
    RunReleased,
    OrderOvertaken,
    RunPreempted,
    StateChange,
    LocalChanged,
    ControlDue,
    SampleDue,
    MonitorNews,
    WakeUp,
    ArrivalDue,
    JobArrived,
    JobGivenUp,
    RoundDue,
)
"""Whatever happens at an instant is told first; then there is one round."""

ARCHIVE: Order = _in_order(
    RoundDue,
    RunReleased,
    WakeUp,
    StateChange,
    LocalChanged,
    ControlDue,
    SampleDue,
    MonitorNews,
    ArrivalDue,
    JobArrived,
    RunEnded,
    OrderOvertaken,
    RunPreempted,
    JobGivenUp,
)
"""Runs that end when they are believed to give back their nodes, all together; then jobs arrive; then ends
are told, in order of start; with a round after each. So did the simulator behind the schedules of Gaussier,
Glesser, Reis and Trystram, "Improving Backfilling by using Machine Learning to Predict Running Times", SC'15.
"""

BATSIM: Order = _in_order(
    ArrivalDue,
    JobArrived,
    RunEnded,
    RunReleased,
    OrderOvertaken,
    RunPreempted,
    StateChange,
    LocalChanged,
    ControlDue,
    SampleDue,
    MonitorNews,
    WakeUp,
    JobGivenUp,
    RoundDue,
)
"""All that happens at an instant is told in one message: first jobs that arrive, then ends; then there is one
round."""

ORDERS: Mapping[str, Order] = {"default": DEFAULT, "archive": ARCHIVE, "batsim": BATSIM}


class EventQueue:
    """Events in order of (time, rank, sequence). One round, wake-up and arrival each may be appointed."""

    def __init__(self, order: Order = DEFAULT) -> None:
        self._rank = order
        self.has_releases = order[RunReleased] < order[RunEnded]
        """Whether runs give back their nodes before their ends are told; else nobody has to hear of it."""
        self._heap: list[tuple[float, int, int, Event]] = []
        self._pushed = 0
        self._now_s = -inf
        self._round = self._wake_up = self._arrival = _NEVER
        self.submissions = 0
        """How many jobs arrive that are not of the workload."""

    def __len__(self) -> int:
        appointed = (self._round, self._wake_up, self._arrival)
        return len(self._heap) + sum(event is not _NEVER for event in appointed)

    def push(self, time_s: float, event: Event) -> None:
        self._pushed += 1
        heappush(self._heap, (time_s, self._rank[type(event)], self._pushed, event))

    def submit(self, time_s: float, job: Job) -> None:
        """A job arrives that is not of the workload."""
        self.submissions += 1
        self.push(time_s, JobArrived(job))

    def appoint_round(self, time_s: float) -> None:
        """The next round is then, and not at another time that was said before."""
        self._round = (time_s, self._rank[RoundDue], 0, _ROUND)

    def appoint_arrival(self, time_s: float) -> None:
        """The same for the next job of the workload."""
        self._arrival = (time_s, self._rank[ArrivalDue], 0, _ARRIVAL)

    def appoint_wake_up(self, time_s: float | None) -> None:
        """The same for waking the resource manager; None = not at all."""
        self._wake_up = _NEVER if time_s is None else (time_s, self._rank[WakeUp], 0, _WAKE_UP)

    @property
    def next_s(self) -> float:
        """When the next event happens; infinite where there is none."""
        appointed_s = min(self._round[0], self._wake_up[0], self._arrival[0])
        return min(appointed_s, self._heap[0][0]) if self._heap else appointed_s

    def pop(self) -> tuple[float, Event]:
        """The next event. Raises IndexError where there is none, ValueError for one that lies in the past."""
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
_NEVER: tuple[float, int, int, Event] = (inf, 0, 0, _ROUND)
