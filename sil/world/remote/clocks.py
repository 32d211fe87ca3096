"""The clock of a resource manager, which may differ from the time in the world."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import inf, nextafter

from scheduler.ports import Clock


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
