"""The decision of a pass."""

from __future__ import annotations

from scheduler.core.arrays import MIN_SIZE, floats, integers, larger


class Starting:
    """The jobs that start in a pass, in order: the place of each in the queue, its size, estimated run time,
    the number of jobs before it in the queue, and of how many intervals its nodes consist once they are
    chosen."""

    def __init__(self) -> None:
        self.n, self.room = 0, MIN_SIZE
        self.place, self.size, self.rank, self.n_intervals = (integers(MIN_SIZE) for _ in range(4))
        self.takes_s = floats(MIN_SIZE)

    def add(self, place: int, size: int, takes_s: float, rank: int) -> None:
        n = self.n
        if n == self.room:
            self.place, self.size = larger(self.place, 2 * n), larger(self.size, 2 * n)
            self.rank, self.n_intervals = larger(self.rank, 2 * n), larger(self.n_intervals, 2 * n)
            self.takes_s, self.room = larger(self.takes_s, 2 * n), 2 * n
        self.place[n], self.size[n], self.takes_s[n], self.rank[n] = place, size, takes_s, rank
        self.n = n + 1
