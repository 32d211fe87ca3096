"""Crashes of the resource manager."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import numpy as np

from scheduler.durability.journal import Journal, JournalEntry
from scheduler.ports import Clock

MOST_STEPS = 16


class ManagerCrashed(Exception):
    """The process of the resource manager ends now."""


class Crashes:
    """The manager crashes after exponential times of a mean, until `until_s`, and is back after `down_s`.

    It crashes where something becomes durable or leaves: before an entry of its journal, after it, or before
    an order, a record of a run or the news that a job is given up is sent. Which of the next `MOST_STEPS`
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
        """A step. Raises ManagerCrashed if the manager crashes now."""
        if not self._next_s <= self._clock.now_s < self._until_s:
            return
        self._steps_left -= 1
        if self._steps_left < 0:
            self._appoint()
            raise ManagerCrashed

    def _appoint(self) -> None:
        self._next_s = self._clock.now_s + float(self._rng.exponential(self._mean_s))
        self._steps_left = int(self._rng.integers(MOST_STEPS))


class MemoryJournal:
    """A journal that lasts as long as the simulation; entries are kept, not copied."""

    def __init__(self) -> None:
        self._entries: list[JournalEntry] = []

    def append(self, entry: JournalEntry) -> None:
        self._entries.append(entry)

    def entries(self) -> Iterable[JournalEntry]:
        return tuple(self._entries)


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
