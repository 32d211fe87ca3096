"""How many nodes are free over time."""

from __future__ import annotations

from math import inf

from scheduler.core.arrays import floats, integers, larger
from scheduler.core.releases import Releases


class Profile:
    """The number of free nodes over time: a row is valid from its time until that of the next row."""

    def __init__(self) -> None:
        self.n = 0
        self.time_s, self.free = floats(1), integers(1)

    def make_room(self, n: int) -> None:
        if n > self.time_s.shape[0]:
            self.time_s, self.free = larger(self.time_s, 2 * n), larger(self.free, 2 * n)

    def begin(self, now_s: float, n_free: int) -> None:
        self.time_s[0], self.free[0], self.n = now_s, n_free, 1

    def row_from(self, time_s: float) -> int:
        """The last row; if `time_s` is later than its time, a new one."""
        n = self.n
        if time_s > self.time_s[n - 1]:
            self.time_s[n], self.free[n] = time_s, self.free[n - 1]
            self.n = n + 1
            return n
        return n - 1

    def beside_runs(self, releases: Releases, n_free: int, now_s: float, soon_s: float) -> None:
        """The profile if all runs end as expected, overdue ones at `soon_s`, and nothing starts."""
        self.make_room(releases.n + 1)
        self.begin(now_s, n_free)
        for x in range(releases.n):
            self.free[self.row_from(max(releases.end_s[x], soon_s))] += releases.released[x]

    def row_at(self, time_s: float) -> int:
        """The row of a time, not before the first row's."""
        low, high = 0, self.n
        while high - low > 1:
            middle = (low + high) >> 1
            if self.time_s[middle] <= time_s:
                low = middle
            else:
                high = middle
        return low

    def cut(self, time_s: float) -> None:
        """Split the row at a time, not before the first row's."""
        x, n = self.row_at(time_s), self.n
        if self.time_s[x] != time_s:
            for y in range(n, x + 1, -1):
                self.time_s[y], self.free[y] = self.time_s[y - 1], self.free[y - 1]
            self.time_s[x + 1], self.free[x + 1] = time_s, self.free[x]
            self.n = n + 1

    def add(self, start_s: float, end_s: float, nodes: int) -> None:
        """Add free nodes from start to end, or remove them if negative."""
        self.cut(start_s)
        self.cut(end_s)
        x = self.row_at(start_s)
        while x < self.n and self.time_s[x] < end_s:
            self.free[x] += nodes
            x += 1

    def earliest_s(self, from_s: float, size: int, takes_s: float, own_s: float) -> float:
        """The earliest time from `from_s` on at which `size` nodes are free for `takes_s`; infinite = never.

        From `own_s` on, `size` nodes are already reserved for this job, which may give them up; infinite =
        none."""
        start_s, n = from_s, self.n
        for x in range(self.row_at(from_s), n):
            time_s = self.time_s[x]
            if time_s >= own_s or time_s >= start_s + takes_s:
                return start_s
            if self.free[x] < size:
                start_s = min(self.time_s[x + 1] if x + 1 < n else inf, own_s)
        return start_s

    def copy_from(self, other: Profile, now_s: float) -> None:
        """Copy the part of a profile from now on, which is not before its first row, without rows that change
        nothing."""
        self.make_room(other.n)
        first = other.row_at(now_s)
        self.begin(now_s, other.free[first])
        m = 1
        for x in range(first + 1, other.n):
            if other.free[x] != self.free[m - 1]:
                self.time_s[m], self.free[m] = other.time_s[x], other.free[x]
                m += 1
        self.n = m

    def is_nowhere_freer(self, last: Profile) -> bool:
        """Whether at no time more nodes are free than in an earlier profile."""
        n, n_last, y = self.n, last.n, last.row_at(self.time_s[0])
        for x in range(n):
            ends_s = self.time_s[x + 1] if x + 1 < n else inf
            if self.free[x] > last.free[y]:
                return False
            while y + 1 < n_last and last.time_s[y + 1] <= ends_s:
                y += 1
                if last.time_s[y] < ends_s and self.free[x] > last.free[y]:
                    return False
        return True

    def goes_on_as(self, last: Profile) -> bool:
        """Whether an earlier profile is this one from now on. In both, all rows but the first are those in
        which a run ends."""
        if last.n == 0:
            return False
        n, first = self.n, last.row_at(self.time_s[0])
        if last.n - first != n or self.free[0] != last.free[first]:
            return False
        for x in range(1, n):
            if self.time_s[x] != last.time_s[first + x] or self.free[x] != last.free[first + x]:
                return False
        return True

    def find_peaks(self, peaks: Profile) -> None:
        """Write the rows in which more nodes are free than in all before. No job can begin before the first
        one that has as many as it requests, even after more of them are reserved."""
        peaks.make_room(self.n)
        peaks.begin(self.time_s[0], self.free[0])
        m = 1
        for x in range(1, self.n):
            if self.free[x] > peaks.free[m - 1]:
                peaks.time_s[m], peaks.free[m] = self.time_s[x], self.free[x]
                m += 1
        peaks.n = m
