"""Simulated monitors of machines and interconnects: exact, stale or noisy."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Protocol

import numpy as np

from scheduler.model import InterconnectReading, MachineReading
from scheduler.ports import Clock

Reading = MachineReading | InterconnectReading
Visible = tuple[float, Reading]
"""A reading and the time from which the scheduler can see it."""


class Distortion(Protocol):
    def distort(self, visible_s: float, reading: Reading) -> Iterable[Visible]:
        """The readings in place of one that would be seen at `visible_s`."""
        ...


@dataclass(frozen=True, slots=True)
class Stale:
    """All readings are seen `delay_s` late."""

    delay_s: float

    def distort(self, visible_s: float, reading: Reading) -> Iterable[Visible]:
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


class SimMonitor:
    """Watches the simulated machines and interconnects, through distortions applied in order."""

    def __init__(self, clock: Clock, distortions: Sequence[Distortion] = ()) -> None:
        self._clock = clock
        self._distortions = distortions
        self._unseen: list[tuple[float, int, Reading]] = []
        self._sequence = count()

    def observe(self, subject: int | str, up: bool) -> list[float]:
        """A change of state just now. Returns the times at which new readings become visible."""
        now_s = self._clock.now_s
        kind = MachineReading if isinstance(subject, int) else InterconnectReading
        visible: list[Visible] = [(now_s, kind(subject, up, now_s))]  # type: ignore[arg-type]
        for distortion in self._distortions:
            visible = [seen for time_s, reading in visible for seen in distortion.distort(time_s, reading)]
        for time_s, reading in visible:
            heapq.heappush(self._unseen, (time_s, next(self._sequence), reading))
        return [time_s for time_s, _ in visible]

    def news(self) -> Sequence[Reading]:
        """Visible readings since the last call, oldest first."""
        readings = []
        while self._unseen and self._unseen[0][0] <= self._clock.now_s:
            readings.append(heapq.heappop(self._unseen)[2])
        return readings
