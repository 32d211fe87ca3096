"""Job classes by the machine class that was best at their last evaluation, and blocks of similar classes."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.core.arrays import Floats, Floats2, Ints, integers, nones
from scheduler.core.codes import NONE
from scheduler.mapping.core.lines import Lines

if TYPE_CHECKING:
    from scheduler.mapping.table import EtcTable

FEW = 256
"""Fewest job classes for which there are blocks."""

MEMBERS = 16
"""Job classes per block."""

ALIKE = 1.5
"""A block is used if its bound is at most this multiple of the latest best completion of its members."""


def longest(times_s: Floats2, members: Ints, first: Ints, row_s: Floats2) -> None:
    """Write the longest time of the members of each block to `row_s`, which must be zero."""
    for b in range(row_s.shape[0]):
        for x in range(first[b], first[b + 1]):
            for k in range(row_s.shape[1]):
                row_s[b, k] = max(row_s[b, k], times_s[members[x], k])


def meld(key: Any, child: Ints, sibling: Ints, a: int, b: int) -> int:
    """Join two heaps."""
    if a == NONE:
        return b
    if b == NONE:
        return a
    if key[b] < key[a]:
        a, b = b, a
    sibling[b] = child[a]
    child[a] = b
    return a


def without_root(key: Any, child: Ints, sibling: Ints, root: int) -> int:
    """Remove the root, which becomes a heap of its own. Returns the rest."""
    c, pairs, rest = child[root], NONE, NONE
    child[root] = NONE
    while c != NONE:
        other, later = sibling[c], NONE
        sibling[c] = NONE
        if other != NONE:
            later = sibling[other]
            sibling[other] = NONE
        c = meld(key, child, sibling, c, other)
        sibling[c] = pairs
        pairs, c = c, later
    while pairs != NONE:
        later = sibling[pairs]
        sibling[pairs] = NONE
        rest = meld(key, child, sibling, rest, pairs)
        pairs = later
    return rest


class Groups:
    """For each machine class the job classes that were best there, the longest at the root.

    Pairing heaps by time (Fredman, Sedgewick, Sleator and Tarjan 1986): the root has the least key, less the
    time on that machine class (`minus_s`), and `child` and `sibling` are NONE where there is none. Classes of
    one group with equal times become one node when they are first compared: the class of the lowest job, with
    the others in a heap by job below it (`head`, the lowest job left of the class when last looked up). A
    block of consecutive classes of `in_order` is also a node, with the number C + b, until it is dissolved;
    it has the longest times of its members, and precedes all jobs. `bound_s` (K,) are upper bounds of the
    best completions of each group.
    """

    def __init__(self, table: EtcTable, lines: Lines, in_order: Ints, ready_s: Floats) -> None:
        """Group all blocks, or all job classes if there are no blocks, at these ready times."""
        self.lines = lines
        n_classes, n_machine_classes = table.by_job_class_s.shape
        self.n_blocks = n_blocks = n_classes // MEMBERS if n_classes > FEW else 0
        n, block_s = n_classes + n_blocks, np.zeros((n_blocks, n_machine_classes))
        self.members, self.first_member = (
            in_order,
            np.arange(n_blocks + 1) * len(in_order) // max(1, n_blocks),
        )
        longest(table.by_job_class_s, self.members, self.first_member, block_s)
        self.block_s = block_s
        head = np.concatenate([table.jobs[table.first_job[:n_classes]], nones(n_blocks)])
        at_start = np.empty(n), nones(n), nones(n), nones(n_machine_classes), head
        self.minus_s, self.child, self.sibling, self.top, self.head = at_start
        self.equal_child, self.equal_sibling = nones(n), nones(n)
        self.bound_s, self.tied, self.group_of = np.empty(n_machine_classes), integers(n), integers(n)
        self.lines.begin(table.first_job[:n_classes], ready_s)
        self.group_all()
        self.at_start = [array.copy() for array in at_start]

    def restart(self) -> None:
        """Return to the first grouping, for another mapping."""
        minus_s, child, sibling, top, head = self.at_start
        self.minus_s, self.child, self.sibling = minus_s.copy(), child.copy(), sibling.copy()
        self.top, self.head = top.copy(), head.copy()
        n = self.head.shape[0]
        self.equal_child, self.equal_sibling = nones(n), nones(n)
        for k in range(self.lines.n_machine_classes):
            self.bound_s[k] = self.bound_of(k)

    def group_all(self) -> None:
        """Group all classes and blocks. O(C K)."""
        n = self.lines.n_job_classes
        for b in range(self.n_blocks):
            bound_s = self.best_completion_s(n + b)
            if bound_s <= ALIKE * self.latest_member_s(b):
                self.enter(n + b, bound_s)
            else:
                self.enter_members(b)
        if self.n_blocks == 0:
            for c in range(n):
                completion_s = self.best_completion_s(c)
                if completion_s < inf:
                    self.enter(c, completion_s)

    def bound_of(self, k: int) -> float:
        """An upper bound of the best completions of group k."""
        if self.top[k] == NONE:
            return -inf
        return self.lines.front_s[k] - self.minus_s[self.top[k]]

    def join(self, c: int, k: int, time_s: float) -> None:
        """Add a class, with the equal ones below it, to group k."""
        self.minus_s[c] = -time_s
        self.top[k] = meld(self.minus_s, self.child, self.sibling, self.top[k], c)

    def meld_equals(self, a: int, b: int) -> int:
        return meld(self.head, self.equal_child, self.equal_sibling, a, b)

    def without_lowest(self, c: int) -> int:
        """The equal classes below class c."""
        return without_root(self.head, self.equal_child, self.equal_sibling, c)

    def best_completion_s(self, c: int) -> float:
        """The best completion of a job class, or of block c - C."""
        n = self.lines.n_job_classes
        if c < n:
            return self.lines.soonest(self.lines.by_job_class_s, c)
        return self.lines.soonest(self.block_s, c - n)

    def enter(self, c: int, completion_s: float) -> int:
        """Add a class or block to the group of the first machine class that completes it then. Returns that
        machine class."""
        n, k = self.lines.n_job_classes, 0
        if c < n:
            while self.lines.front_s[k] + self.lines.by_job_class_s[c, k] != completion_s:
                k += 1
            self.join(c, k, self.lines.by_job_class_s[c, k])
        else:
            while self.lines.front_s[k] + self.block_s[c - n, k] != completion_s:
                k += 1
            self.join(c, k, self.block_s[c - n, k])
        return k

    def take_tied(self, largest_s: float) -> None:
        """Remove all whose bound is `largest_s` from their groups; those of equal time in a group become one.

        Writes the class of the lowest job of each to `tied`, and its group to `group_of`.
        """
        n = 0
        for k in range(self.lines.n_machine_classes):
            if self.bound_s[k] != largest_s:
                continue
            first = n
            while self.bound_of(k) == largest_s:  # by rounding, shorter ones may be as late
                c = self.top[k]
                self.top[k] = without_root(self.minus_s, self.child, self.sibling, c)
                if n > first and self.minus_s[self.tied[n - 1]] == self.minus_s[c]:
                    self.tied[n - 1] = self.meld_equals(self.tied[n - 1], c)
                else:
                    self.tied[n], self.group_of[n] = c, k
                    n += 1
            self.bound_s[k] = self.bound_of(k)
        self.n_tied = n

    def put_tied_back(self, largest_s: float) -> None:
        for x in range(self.n_tied):
            c = self.tied[x]
            self.join(c, self.group_of[x], -self.minus_s[c])
            self.bound_s[self.group_of[x]] = largest_s

    def enter_members(self, b: int) -> None:
        """Dissolve a block."""
        for x in range(self.first_member[b], self.first_member[b + 1]):
            c = self.members[x]
            completion_s = self.best_completion_s(c)
            if completion_s < inf:
                self.enter(c, completion_s)

    def latest_member_s(self, b: int) -> float:
        """The largest best completion of a block's members."""
        latest_s = 0.0
        for x in range(self.first_member[b], self.first_member[b + 1]):
            latest_s = max(latest_s, self.best_completion_s(self.members[x]))
        return latest_s
