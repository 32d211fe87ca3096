"""What is unreliable for a resource manager: its network to the machines, its process and its clock."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf, nextafter
from typing import Literal

import numpy as np

from scheduler.durability.journal import Journal, JournalEntry
from scheduler.ports import Clock
from sil.world.events import EventQueue, MessageDue

Mishap = Literal["lost", "late", "repeated", "reordered"]


@dataclass(frozen=True, slots=True)
class Unreliable:
    """A share of the messages sent before `until_s` is lost, held back for `by_s` so that later ones overtake
    them, or repeated after an exponential time of this mean; or all are late by such times."""

    how: Mishap
    rng: np.random.Generator
    share: float = 1.0
    by_s: float = 0.0
    until_s: float = inf

    def copies(self, machine: int, sent_s: float, arrive_s: float) -> Iterable[float]:
        """When copies of a message arrive that would arrive at `arrive_s`; its other end is `machine`."""
        if sent_s >= self.until_s:
            return (arrive_s,)
        if self.how == "late":
            return (arrive_s + float(self.rng.exponential(self.by_s)),)
        if self.rng.random() >= self.share:
            return (arrive_s,)
        if self.how == "reordered":
            return (arrive_s + self.by_s,)
        return () if self.how == "lost" else (arrive_s, arrive_s + float(self.rng.exponential(self.by_s)))


@dataclass(frozen=True, slots=True)
class NetworkPartition:
    """From `from_s` to `to_s`, `machines` are separated from the manager; what runs there continues."""

    machines: frozenset[int]
    from_s: float
    to_s: float

    def copies(self, machine: int, sent_s: float, arrive_s: float) -> Iterable[float]:
        overlaps = sent_s < self.to_s and arrive_s >= self.from_s
        if machine not in self.machines or not overlaps:
            yield arrive_s


MessageFault = Unreliable | NetworkPartition


class Network:
    """Passes messages through `faults`, in order; without any, they arrive at the instant they are sent."""

    def __init__(self, clock: Clock, events: EventQueue, faults: Sequence[MessageFault] = ()) -> None:
        self._clock = clock
        self._events = events
        self._faults = faults

    def send(self, machine: int, deliver: Callable[[], object]) -> None:
        """A message between the manager and `machine`; `deliver` is called when a copy arrives."""
        now_s = self._clock.now_s
        arrive_s: Iterable[float] = (now_s,)
        for fault in self._faults:
            arrive_s = [copy_s for time_s in arrive_s for copy_s in fault.copies(machine, now_s, time_s)]
        for time_s in arrive_s:
            self._events.push(time_s, MessageDue(deliver))


MAX_STEPS = 16


class ManagerCrashed(Exception):
    """The process of the resource manager ends now."""


class Crashes:
    """The manager crashes after exponential times of a mean, until `until_s`, and is back after `down_s`.

    It crashes where something becomes durable or leaves: before an entry of its journal, after it, or before
    an order, a record of a run or the news that a job is given up is sent. Which of the next `MAX_STEPS`
    such steps it is, is random, too.
    """

    def __init__(
        self, mean_s: float, down_s: float, clock: Clock, rng: np.random.Generator, until_s: float = inf
    ) -> None:
        self.down_s = down_s
        self._mean_s = mean_s
        self._clock = clock
        self._rng = rng
        self._until_s = until_s
        self._next_s = 0.0
        self._appoint()

    def strike(self) -> None:
        """Take a step. Raises ManagerCrashed if the manager crashes now."""
        if not self._next_s <= self._clock.now_s < self._until_s:
            return
        self._steps_left -= 1
        if self._steps_left < 0:
            self._appoint()
            raise ManagerCrashed

    def _appoint(self) -> None:
        self._next_s = self._clock.now_s + float(self._rng.exponential(self._mean_s))
        self._steps_left = int(self._rng.integers(MAX_STEPS))


class MemoryJournal(list[JournalEntry]):
    """A journal that lasts as long as the simulation; entries are kept, not copied."""

    def entries(self) -> Iterable[JournalEntry]:
        return tuple(self)


class CrashingJournal:
    """A journal during whose writes the manager may crash: the entry is written then, or it is not."""

    def __init__(self, journal: Journal, crashes: Crashes) -> None:
        self._journal = journal
        self._crashes = crashes

    def append(self, entry: JournalEntry) -> None:
        self._crashes.strike()
        self._journal.append(entry)
        self._crashes.strike()

    def entries(self) -> Iterable[JournalEntry]:
        return self._journal.entries()


class ManagerClock:
    """Shows the time in the world plus an offset, which jumps at certain times.

    It never goes back, as clocks that only count forward: after a jump back it stands still until the
    time that it has shown.
    """

    def __init__(self, clock: Clock, jumps: Sequence[tuple[float, float]] = ()) -> None:
        """`jumps`: times in the world, in order, and the offset from then on, in seconds."""
        self._clock = clock
        self.jumps_s = [time_s for time_s, _ in jumps]
        self._offsets_s = [0.0, *(offset_s for _, offset_s in jumps)]
        self._shown_s = 0.0

    @property
    def now_s(self) -> float:
        now_s = self._clock.now_s
        if not self.jumps_s:
            return now_s
        self._shown_s = max(self._shown_s, now_s + self._offset_s(now_s))
        return self._shown_s

    def world_time_s(self, shown_s: float) -> float:
        """When the clock shows a time, unless it jumps before; now if it shows a later one already."""
        now_s = self._clock.now_s
        if not self.jumps_s:
            return max(shown_s, now_s)
        if shown_s <= self.now_s:
            return now_s
        offset_s = self._offset_s(now_s)
        time_s = shown_s - offset_s
        while time_s + offset_s < shown_s:  # rounded
            time_s = nextafter(time_s, inf)
        return time_s

    def _offset_s(self, now_s: float) -> float:
        return self._offsets_s[bisect_right(self.jumps_s, now_s)]
