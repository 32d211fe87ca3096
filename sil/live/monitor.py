"""The clock and the monitor of this computer."""

from __future__ import annotations

import time
from collections.abc import Sequence

import psutil

from scheduler.model import MachineReading
from scheduler.ports import Clock


def usable_cores() -> list[int]:
    """The cores that this process may run on."""
    return sorted(psutil.Process().cpu_affinity() or ())


class WallClock:
    """Seconds since the clock was made."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began_s


class CoreMonitor:
    """A core is up while this process may run on it, which an administrator can change."""

    def __init__(self, cores: Sequence[int], clock: Clock) -> None:
        self._cores = cores
        self._clock = clock
        self._up = [True] * len(cores)
        self._unread: list[MachineReading] = []

    def look(self) -> bool:
        """Take readings. Returns whether one has changed."""
        usable, now_s = set(usable_cores()), self._clock.now_s
        for j, core in enumerate(self._cores):
            if self._up[j] != (core in usable):
                self._up[j] = not self._up[j]
                self._unread.append(MachineReading(j, self._up[j], now_s))
        return bool(self._unread)

    def news(self) -> Sequence[MachineReading]:
        unread, self._unread = self._unread, []
        return unread
