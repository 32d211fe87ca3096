"""Fakes of the machine and network monitors: exact, stale, noisy, or all of it together."""

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
    """Stands between what is and what is seen."""

    def distort(self, visible_s: float, reading: Reading) -> Iterable[Visible]:
        """What becomes of a reading that would be seen at `visible_s`."""
        ...


@dataclass(frozen=True, slots=True)
class Stale:
    """Everything is seen `delay_s` late."""

    delay_s: float

    def distort(self, visible_s: float, reading: Reading) -> Iterable[Visible]:
        yield visible_s + self.delay_s, reading


@dataclass(frozen=True, slots=True)
class Noisy:
    """A share of readings says the opposite, and is put right `corrected_after_s` later."""

    misread_share: float
    corrected_after_s: float
    luck: np.random.Generator

    def distort(self, visible_s: float, reading: Reading) -> Iterable[Visible]:
        if self.luck.random() < self.misread_share:
            yield visible_s, replace(reading, up=not reading.up)
            yield visible_s + self.corrected_after_s, reading  # as old as it is: later news overrules it
        else:
            yield visible_s, reading


class SimMonitor:
    """Watches the simulated machines and interconnects, through any number of distortions in order."""

    def __init__(self, clock: Clock, distortions: Sequence[Distortion] = ()) -> None:
        self._clock = clock
        self._distortions = distortions
        self._unseen: list[tuple[float, int, Reading]] = []
        self._sequence = count()

    def observe(self, subject: int | str, up: bool) -> list[float]:
        """Something changed just now. Returns the times from which there will be news of it."""
        now_s = self._clock.now_s
        kind = MachineReading if isinstance(subject, int) else InterconnectReading
        visible: list[Visible] = [(now_s, kind(subject, up, now_s))]  # type: ignore[arg-type]
        for distortion in self._distortions:
            visible = [seen for time_s, reading in visible for seen in distortion.distort(time_s, reading)]
        for time_s, reading in visible:
            heapq.heappush(self._unseen, (time_s, next(self._sequence), reading))
        return [time_s for time_s, _ in visible]

    def news(self) -> Sequence[Reading]:
        """What can be seen now and was not told yet, oldest first."""
        readings = []
        while self._unseen and self._unseen[0][0] <= self._clock.now_s:
            readings.append(heapq.heappop(self._unseen)[2])
        return readings
