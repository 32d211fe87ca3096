"""Events in order of their times."""

from __future__ import annotations

from scheduler.core.arrays import MIN_SIZE, integers, larger
from scheduler.core.heap import Heap


class PendingEvents:
    """Events of a kind, each with a subject and a version; simultaneous ones are first in, first out.

    Times are whole nanoseconds, which are exact for 104 days (2^53).
    """

    def __init__(self) -> None:
        self.heap, self.pushed = Heap(MIN_SIZE), 0
        self.free, self.n_free, self.n_used = integers(MIN_SIZE), 0, 0
        self.kind, self.subject, self.version = integers(MIN_SIZE), integers(MIN_SIZE), integers(MIN_SIZE)

    def make_room(self) -> None:
        n = 2 * self.n_used
        self.heap.make_room(n)
        self.free, self.kind = larger(self.free, n), larger(self.kind, n)
        self.subject, self.version = larger(self.subject, n), larger(self.version, n)

    def push(self, time: int, kind: int, subject: int, version: int) -> None:
        if self.n_free > 0:
            self.n_free -= 1
            x = self.free[self.n_free]
        else:
            if self.n_used == self.free.shape[0]:
                self.make_room()
            x = self.n_used
            self.n_used += 1
        self.kind[x], self.subject[x], self.version[x] = kind, subject, version
        self.pushed += 1
        self.heap.push(x, time, self.pushed)

    def pop(self) -> int:
        """The row of the first event, of which there must be one; valid until the next push."""
        x = self.heap.pop()
        self.free[self.n_free] = x
        self.n_free += 1
        return x
