"""A network between the resource manager and the machines, which is unreliable in ways that compose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from scheduler.ports import Clock
from sil.world.events import EventQueue, MessageDue


class MessageFault(Protocol):
    """What becomes of messages between the manager and a machine, in either direction."""

    def copies(self, machine: int, sent_s: float, arrive_s: float) -> Iterable[float]:
        """When copies of a message arrive that would arrive at `arrive_s`; none if it is lost."""
        ...


@dataclass(frozen=True, slots=True)
class Delayed(MessageFault):
    """Messages are late, by exponential times; so they also overtake each other."""

    mean_s: float
    rng: np.random.Generator

    def copies(self, machine: int, sent_s: float, arrive_s: float) -> Iterable[float]:
        yield arrive_s + float(self.rng.exponential(self.mean_s))


@dataclass(frozen=True, slots=True)
class Lost(MessageFault):
    share: float
    rng: np.random.Generator

    def copies(self, machine: int, sent_s: float, arrive_s: float) -> Iterable[float]:
        if self.rng.random() >= self.share:
            yield arrive_s


@dataclass(frozen=True, slots=True)
class Duplicated(MessageFault):
    """A share of messages arrives twice, the second copy an exponential time after the first."""

    share: float
    mean_s: float
    rng: np.random.Generator

    def copies(self, machine: int, sent_s: float, arrive_s: float) -> Iterable[float]:
        yield arrive_s
        if self.rng.random() < self.share:
            yield arrive_s + float(self.rng.exponential(self.mean_s))


@dataclass(frozen=True, slots=True)
class Reordered(MessageFault):
    """A share of messages is held back for `by_s`, so that later ones overtake them."""

    share: float
    by_s: float
    rng: np.random.Generator

    def copies(self, machine: int, sent_s: float, arrive_s: float) -> Iterable[float]:
        yield arrive_s + (self.by_s if self.rng.random() < self.share else 0.0)


@dataclass(frozen=True, slots=True)
class Partition(MessageFault):
    """From `from_s` to `to_s`, `machines` are separated from the manager; what runs there continues."""

    machines: frozenset[int]
    from_s: float
    to_s: float

    def copies(self, machine: int, sent_s: float, arrive_s: float) -> Iterable[float]:
        overlaps = sent_s < self.to_s and arrive_s >= self.from_s
        if machine not in self.machines or not overlaps:
            yield arrive_s


@dataclass(frozen=True, slots=True)
class Until(MessageFault):
    """A fault that affects only messages sent before `time_s`."""

    time_s: float
    fault: MessageFault

    def copies(self, machine: int, sent_s: float, arrive_s: float) -> Iterable[float]:
        if sent_s < self.time_s:
            return self.fault.copies(machine, sent_s, arrive_s)
        return (arrive_s,)


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
