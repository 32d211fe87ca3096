"""Events and their order."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count

from scheduler.model import Job, RunId


@dataclass(frozen=True, slots=True)
class RunEnded:
    run: RunId


@dataclass(frozen=True, slots=True)
class OrderOvertaken:
    """A dispatch order found something it needs down: machines by index, interconnects by name."""

    run: RunId
    found_down: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class RunPreempted:
    run: RunId


@dataclass(frozen=True, slots=True)
class StateChange:
    """A machine (by index) or an interconnect (by name) goes down or comes back."""

    subject: int | str
    up: bool


@dataclass(frozen=True, slots=True)
class LocalChanged:
    """The local users of a node demand another share of its CPU, other memory, or are there or gone."""

    node: int
    cpu: float
    memory_mb: float
    user_is_there: bool


@dataclass(frozen=True, slots=True)
class ControlDue:
    """The coscheduler of a node notices what changed there some time ago."""

    node: int


@dataclass(frozen=True, slots=True)
class SampleDue:
    """A node's monitor takes its next sample."""

    node: int


@dataclass(frozen=True, slots=True)
class MonitorNews:
    """A monitor has something to tell."""


@dataclass(frozen=True, slots=True)
class WakeUp:
    """The resource manager wanted to be told of this time."""


@dataclass(frozen=True, slots=True)
class JobArrived:
    job: Job


@dataclass(frozen=True, slots=True)
class RoundDue:
    """The scheduler's next round."""


Event = (
    RunEnded
    | OrderOvertaken
    | RunPreempted
    | StateChange
    | LocalChanged
    | ControlDue
    | SampleDue
    | MonitorNews
    | WakeUp
    | JobArrived
    | RoundDue
)

RANK: dict[type[Event], int] = {
    RunEnded: 0,
    OrderOvertaken: 1,
    RunPreempted: 2,
    StateChange: 3,
    LocalChanged: 4,
    ControlDue: 5,
    SampleDue: 6,
    MonitorNews: 7,
    WakeUp: 8,
    JobArrived: 9,
    RoundDue: 10,
}
"""Which of the events of one instant comes first; within a rank, the one that was pushed first."""


class EventQueue:
    """Events in order of (time, rank, sequence)."""

    def __init__(self, rank: dict[type[Event], int] = RANK) -> None:
        self._rank = rank
        self._heap: list[tuple[float, int, int, Event]] = []
        self._sequence = count()

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, time_s: float, event: Event) -> None:
        heapq.heappush(self._heap, (time_s, self._rank[type(event)], next(self._sequence), event))

    def pop(self) -> tuple[float, Event]:
        time_s, _, _, event = heapq.heappop(self._heap)
        return time_s, event
