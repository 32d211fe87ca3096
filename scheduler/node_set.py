"""Sets of nodes as closed intervals: what a job holds, and what is free, of a machine of any size."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import index
from typing import overload

Interval = tuple[int, int]
"""First and last node."""


class NodeSet(Sequence[int]):
    """Nodes by number, in ascending order. It never changes.

    As text it is Batsim's: `0-3 5`.
    """

    __slots__ = ("intervals", "n")

    def __init__(self, intervals: tuple[Interval, ...], n: int) -> None:
        """`intervals` in ascending order, not touching one another, with `n` nodes in them."""
        self.intervals = intervals
        self.n = n

    @classmethod
    def of(cls, nodes: Iterable[int]) -> NodeSet:
        """The set of some nodes in any order.

        Raises ValueError where one is named twice, TypeError for what is no whole number.
        """
        if isinstance(nodes, NodeSet):
            return nodes
        ordered = sorted(map(index, nodes))
        intervals: list[Interval] = []
        for n in ordered:
            if intervals and n <= intervals[-1][1]:
                raise ValueError(f"node {n} is named twice")
            if intervals and intervals[-1][1] == n - 1:
                intervals[-1] = intervals[-1][0], n
            else:
                intervals.append((n, n))
        return cls(tuple(intervals), len(ordered))

    @classmethod
    def parse(cls, text: str) -> NodeSet:
        """The set that a text like `0-3 5` stands for. Raises ValueError for another text.

        Intervals may come in any order and touch, but have no node in common.
        """
        parts = (part.partition("-") for part in text.split())
        joined: list[Interval] = []
        for first, last in sorted((int(first), int(last if dash else first)) for first, dash, last in parts):
            if first > last or (joined and first <= joined[-1][1]):
                raise ValueError(f"'{text}' is no set of nodes like '0-3 5'")
            if joined and first == joined[-1][1] + 1:
                joined[-1] = joined[-1][0], last
            else:
                joined.append((first, last))
        return cls(tuple(joined), sum(last - first + 1 for first, last in joined))

    def within(self, n_nodes: int) -> bool:
        """Whether all are of the nodes 0 to n_nodes - 1."""
        return not self.intervals or 0 <= self.intervals[0][0] <= self.intervals[-1][1] < n_nodes

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[int]:
        return (n for first, last in self.intervals for n in range(first, last + 1))

    def __contains__(self, node: object) -> bool:
        return any(isinstance(node, int) and first <= node <= last for first, last in self.intervals)

    @overload
    def __getitem__(self, k: int) -> int: ...

    @overload
    def __getitem__(self, k: slice) -> Sequence[int]: ...

    def __getitem__(self, k: int | slice) -> int | Sequence[int]:
        return tuple(self)[k]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSet) and self.intervals == other.intervals

    def __hash__(self) -> int:
        return hash(self.intervals)

    def __str__(self) -> str:
        if self.n > 1 and len(self.intervals) == 1:
            first, last = self.intervals[0]
            return f"{first}-{last}"
        return " ".join(
            [str(first) if first == last else f"{first}-{last}" for first, last in self.intervals]
        )

    def __repr__(self) -> str:
        return f"NodeSet('{self}')"


class FreeSet:
    """The nodes that nobody holds, as intervals in ascending order that do not touch.

    Taking a set or giving it back costs O(log) in the number of intervals, for each of the set's own.
    """

    __slots__ = ("_firsts", "_last_of", "n")

    def __init__(self, n_nodes: int) -> None:
        self._firsts = [0] if n_nodes else []
        self._last_of = dict.fromkeys(self._firsts, n_nodes - 1)
        self.n = n_nodes

    @property
    def intervals(self) -> list[Interval]:
        return [(first, self._last_of[first]) for first in self._firsts]

    def has(self, nodes: NodeSet) -> bool:
        """Whether all of them are free."""
        firsts, last_of = self._firsts, self._last_of
        for first, last in nodes.intervals:
            k = bisect_right(firsts, first) - 1
            if k < 0 or last_of[firsts[k]] < last:
                return False
        return True

    def lowest(self, n: int, passed_over: int = 0) -> NodeSet:
        """The n free nodes of the lowest numbers, after as many as are passed over; there are so many."""
        if not n:
            return NodeSet((), 0)
        taken: list[Interval] = []
        left, last_of = n, self._last_of
        for first in self._firsts:
            last = last_of[first]
            if passed_over:
                if last - first < passed_over:
                    passed_over -= last - first + 1
                    continue
                first += passed_over
                passed_over = 0
            if last - first >= left - 1:
                taken.append((first, first + left - 1))
                break
            taken.append((first, last))
            left -= last - first + 1
        return NodeSet(tuple(taken), n)

    def take(self, nodes: NodeSet) -> None:
        """Nodes that are free are so no longer."""
        firsts, last_of = self._firsts, self._last_of
        for first, last in nodes.intervals:
            k = bisect_right(firsts, first) - 1
            begins = firsts[k]
            ends = last_of[begins]
            if begins < first:
                last_of[begins] = first - 1
                if ends > last:
                    firsts.insert(k + 1, last + 1)
                    last_of[last + 1] = ends
            else:
                del last_of[begins]
                if ends > last:
                    firsts[k] = last + 1
                    last_of[last + 1] = ends
                else:
                    del firsts[k]
        self.n -= nodes.n

    def give_back(self, nodes: NodeSet) -> None:
        """Nodes that were held are free."""
        firsts, last_of = self._firsts, self._last_of
        for first, last in nodes.intervals:
            k = bisect_right(firsts, first)
            if last + 1 in last_of:  # what begins behind it is joined
                last = last_of.pop(last + 1)
                del firsts[k]
            if k and last_of[firsts[k - 1]] == first - 1:
                last_of[firsts[k - 1]] = last
            else:
                firsts.insert(k, first)
                last_of[first] = last
        self.n += nodes.n
