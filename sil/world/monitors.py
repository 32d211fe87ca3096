"""Simulated monitors: the state of machines and interconnects, and the local load of nodes."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import exp

import numpy as np

from scheduler.managers.availability import LatestReadings
from scheduler.model import InterconnectReading, MachineReading, NodeReading
from scheduler.ports import Clock, Monitor, MonitorNews, NodeMonitor, RunLost
from sil.world.events import EventQueue, LocalChanged, SampleDue

Reading = MachineReading | InterconnectReading
Visible = tuple[float, Reading]
"""A reading and the time from which the scheduler can see it."""


@dataclass(frozen=True, slots=True)
class Stale:
    """All readings are seen `delay_s` late."""

    delay_s: float

    def distort(self, visible_s: float, reading: Reading) -> Iterable[Visible]:
        """The readings in place of one that would be seen at `visible_s`."""
        yield visible_s + self.delay_s, reading


@dataclass(frozen=True, slots=True)
class Noisy:
    """A share of readings is inverted, and corrected `corrected_after_s` later."""

    misread_share: float
    corrected_after_s: float
    rng: np.random.Generator

    def distort(self, visible_s: float, reading: Reading) -> Iterable[Visible]:
        if self.rng.random() < self.misread_share:
            yield visible_s, replace(reading, up=not reading.up)
            yield visible_s + self.corrected_after_s, reading  # with its old time: later readings overrule it
        else:
            yield visible_s, reading


Distortion = Stale | Noisy


class SimMonitor:
    """Watches the simulated machines and interconnects, through distortions applied in order."""

    def __init__(self, clock: Clock, distortions: Sequence[Distortion] = ()) -> None:
        self._clock = clock
        self._distortions = distortions
        self._unseen: list[tuple[float, int, Reading]] = []
        self._sequence = count()

    def observe(self, subjects: tuple[int | str, ...], up: bool) -> list[float]:
        """An interconnect, or all slots of a machine, changed state just now. Returns the times at which new
        readings become visible; the slots of a machine always have the same ones."""
        now_s = self._clock.now_s
        visible: list[Visible] = [(now_s, _reading(subjects[0], up, now_s))]
        for distortion in self._distortions:
            visible = [seen for time_s, reading in visible for seen in distortion.distort(time_s, reading)]
        for time_s, seen in visible:
            for subject in subjects:
                reading = _reading(subject, seen.up, seen.measured_s)
                heapq.heappush(self._unseen, (time_s, next(self._sequence), reading))
        return [time_s for time_s, _ in visible]

    def news(self) -> Sequence[Reading]:
        """Visible readings since the last call, oldest first."""
        readings = []
        while self._unseen and self._unseen[0][0] <= self._clock.now_s:
            readings.append(heapq.heappop(self._unseen)[2])
        return readings


class NodeStates:
    """The readings of a monitor that concern nodes; jobs on nodes do not need interconnects."""

    def __init__(self, monitor: SimMonitor) -> None:
        self._monitor = monitor

    def news(self) -> Sequence[MachineReading]:
        """Readings since the last call, oldest first."""
        return [reading for reading in self._monitor.news() if isinstance(reading, MachineReading)]


def _reading(subject: int | str, up: bool, measured_s: float) -> Reading:
    if isinstance(subject, int):
        return MachineReading(subject, up, measured_s)
    return InterconnectReading(subject, up, measured_s)


IMPOSSIBLE_MPL = -1.0


@dataclass(frozen=True, slots=True)
class Sampling:
    """Every `interval_s`, the CPU share smoothed over `smoothing_s`, visible `delay_s` later or lost.

    `untrue_share` of the samples are impossible (an MPL of -1); about `silent_share` of the nodes send none.
    """

    interval_s: float = 5.0
    smoothing_s: float = 60.0
    delay_s: float = 0.0
    lost_share: float = 0.0
    untrue_share: float = 0.0
    silent_share: float = 0.0


@dataclass(slots=True)
class _Node:
    """The actual state of a node, and its smoothed CPU share, which is exact between changes."""

    cpu: float = 0.0
    memory_mb: float = 0.0
    user_is_there: bool = False
    smoothed: float = 0.0
    since_s: float = 0.0
    silent: bool = False


class NodeMonitors:
    """Watch the nodes that have had local users; arrivals and departures are reported at once."""

    def __init__(
        self,
        clock: Clock,
        events: EventQueue,
        sampling: Sampling,
        rng: np.random.Generator,
        note_silent: Callable[[int], None] = lambda node: None,
    ) -> None:
        self._clock, self._events, self._sampling, self._rng = clock, events, sampling, rng
        self._note_silent = note_silent
        self._nodes: dict[int, _Node] = {}
        self._unseen: deque[tuple[float, NodeReading]] = deque()

    def local_changed(self, change: LocalChanged) -> None:
        now_s = self._clock.now_s
        if change.node not in self._nodes:
            silent = self._happens(self._sampling.silent_share)
            self._nodes[change.node] = _Node(since_s=now_s, silent=silent)
            if silent:
                self._note_silent(change.node)
                return
            self._events.push(now_s + self._sampling.interval_s, SampleDue(change.node))
        seen = self._nodes[change.node]
        if seen.silent:
            return
        self._smooth(seen, now_s)
        came_or_went = seen.user_is_there != change.user_is_there
        seen.cpu, seen.memory_mb, seen.user_is_there = change.cpu, change.memory_mb, change.user_is_there
        if came_or_went:
            self._report(change.node, now_s)

    def sample(self, node: int) -> None:
        now_s = self._clock.now_s
        self._events.push(now_s + self._sampling.interval_s, SampleDue(node))
        if not self._happens(self._sampling.lost_share):
            self._smooth(self._nodes[node], now_s)
            self._report(node, now_s)

    def news(self) -> Sequence[NodeReading]:
        """Visible readings since the last call, oldest first."""
        readings = []
        while self._unseen and self._unseen[0][0] <= self._clock.now_s:
            readings.append(self._unseen.popleft()[1])
        return readings

    def _smooth(self, seen: _Node, now_s: float) -> None:
        seen.smoothed = seen.cpu + (seen.smoothed - seen.cpu) * exp(
            -(now_s - seen.since_s) / self._sampling.smoothing_s
        )
        seen.since_s = now_s

    def _happens(self, share: float) -> bool:
        """Whether an event of this probability happens; an impossible one draws no random number."""
        return share > 0.0 and bool(self._rng.random() < share)

    def _report(self, node: int, now_s: float) -> None:
        seen, seen_s = self._nodes[node], now_s + self._sampling.delay_s
        tasks = IMPOSSIBLE_MPL if self._happens(self._sampling.untrue_share) else float(seen.cpu > 0.0)
        reading = NodeReading(node, tasks, seen.smoothed, seen.memory_mb, seen.user_is_there, now_s)
        self._unseen.append((seen_s, reading))
        self._events.push(seen_s, MonitorNews())


class NodeChanges:
    """Follows the readings of a monitor; all nodes are up at first, and always without one."""

    def __init__(self, monitor: Monitor | NodeMonitor | None) -> None:
        self._monitor = monitor
        self._down: set[int] = set()
        self._latest = LatestReadings()

    def new(self, loss: RunLost | None = None) -> Iterator[tuple[int, bool]]:
        """Nodes, and whether they are up, whose reported state has changed since the last call, by the
        monitor or by the loss of a run."""
        news = self._monitor.news() if self._monitor else ()
        for reading in (*(loss.readings if loss else ()), *news):
            if not isinstance(reading, MachineReading):
                continue
            node, up = reading.machine, reading.up
            if self._latest.accept(node, reading.measured_s) and up == (node in self._down):
                self._down ^= {node}
                yield node, up
