"""Which nodes may be used, by whom and when: nodes that are down or drained, and reservations of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from scheduler.core.arrays import MIN_SIZE, floats, integers, larger
from scheduler.node_resources.core.codes import MAX_RESERVATIONS, NONE, ONE


class Calendar:
    """The nodes that are `up` for new runs, and the reservations that are known and not over, each with a
    number: its times, and the nodes that it `has`.

    Jobs are of classes: one names a reservation (`own`, as a bit), and runs on its nodes while it lasts;
    others, and all jobs of a reservation that is over, have none (0). A run is nowhere in a reservation that
    is not its own. `version` is the number of changes, `reserved_since` that of the last one of reservations,
    and `serial` that with which a reservation became known; 0 if it is over.
    """

    def __init__(self, n_nodes: int) -> None:
        self.n_nodes, self.n, self.version, self.reserved_since = n_nodes, 0, 0, 0
        self.up, self.has = np.ones(n_nodes, np.uint8), np.zeros((0, n_nodes), np.uint8)
        self.start_s, self.end_s, self.serial = floats(0), floats(0), integers(0)
        self.own, self.class_of, self.names = integers(MIN_SIZE), {"": 0}, dict[int, str]()

    def set_up(self, n: int, is_up: bool) -> None:
        if self.up[n] != is_up:
            self.up[n] = is_up
            self.version += 1

    def job_class(self, reservation: str) -> int:
        """The class of jobs that name a reservation, which must be known before they wait."""
        found: int = self.class_of.setdefault(reservation, len(self.class_of))
        if found == self.own.shape[0]:
            self.own = larger(self.own, 2 * found)
        return found

    def reserve(self, name: str, nodes: Sequence[int], start_s: float, end_s: float) -> None:
        """A reservation becomes known. Raises OverflowError if there are too many."""
        b = 0
        while b < self.n and self.serial[b] != 0:
            b += 1
        if b == MAX_RESERVATIONS:
            raise OverflowError(f"more than {MAX_RESERVATIONS} reservations are known at a time")
        if b == self.has.shape[0]:
            n = min(max(2 * b, 4), MAX_RESERVATIONS)
            self.has, self.serial = larger(self.has, n), larger(self.serial, n)
            self.start_s, self.end_s = larger(self.start_s, n), larger(self.end_s, n)
        self.n, self.version = max(self.n, b + 1), self.version + 1
        self.reserved_since = self.version
        self.start_s[b], self.end_s[b], self.serial[b], self.names[b] = start_s, end_s, self.version, name
        for n in range(self.n_nodes):
            self.has[b, n] = False
        for n in nodes:
            self.has[b, n] = True
        self.own[self.job_class(name)] = ONE << b

    def forget_past(self, now_s: float) -> None:
        """Note the reservations that are over."""
        for b in range(self.n):
            if self.serial[b] != 0 and self.end_s[b] <= now_s:
                self.serial[b] = 0
                self.version += 1
                self.reserved_since = self.version
                for k in range(self.own.shape[0]):
                    if self.own[k] == ONE << b:
                        self.own[k] = 0
        while self.n > 0 and self.serial[self.n - 1] == 0:
            self.n -= 1

    def next_s(self, now_s: float) -> float:
        """When a reservation begins or ends next; infinite if none does."""
        next_s = inf
        for b in range(self.n):
            if self.serial[b] != 0:
                if now_s < self.start_s[b]:
                    next_s = min(next_s, self.start_s[b])
                if now_s < self.end_s[b]:
                    next_s = min(next_s, self.end_s[b])
        return next_s

    def in_the_way(self, own: int, n: int, from_s: float, until_s: float) -> int:
        """The reservation for which a job with this own one cannot run on a node between two times; NONE if
        it can."""
        for b in range(self.n):
            if self.serial[b] == 0:
                continue
            if own == ONE << b:
                if not self.has[b, n] or from_s < self.start_s[b] or self.end_s[b] < until_s:
                    return b
            elif self.has[b, n] and self.start_s[b] < until_s and from_s < self.end_s[b]:
                return b
        return NONE

    def has_in_the_way(self, own: int, from_s: float, until_s: float) -> bool:
        """Whether there may be such a reservation on some node."""
        for b in range(self.n):
            if self.serial[b] != 0 and (
                own == ONE << b or (self.start_s[b] < until_s and from_s < self.end_s[b])
            ):
                return True
        return False
