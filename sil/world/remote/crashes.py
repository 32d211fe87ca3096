"""Crashes of the resource manager."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

import numpy as np

from scheduler.dependable.journal import Journal, JournalEntry
from scheduler.ports import Clock


class ManagerCrashed(Exception):
    """The process of the resource manager ends now."""


@dataclass(eq=False)
class Crashes:
    """The manager crashes with the probability `share` before each entry of its journal, after it, and before
    each order that it sends, until `until_s`; it is back after `down_s`."""

    share: float
    down_s: float
    clock: Clock
    rng: np.random.Generator = field(repr=False)
    until_s: float = inf

    def strike(self) -> None:
        """Raises ManagerCrashed at random."""
        if self.clock.now_s < self.until_s and self.rng.random() < self.share:
            raise ManagerCrashed


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
