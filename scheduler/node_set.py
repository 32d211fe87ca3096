"""Sets of nodes as closed intervals: independent of the size of the machine."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import index
from sys import maxsize
from typing import Any

Interval = tuple[int, int]
"""First and last node."""


class NodeSet(Sequence[int]):
    """An immutable set of node numbers, in ascending order. Its text form is Batsim's: `0-3 5`."""

    __slots__ = ("intervals", "n")

    def __init__(self, intervals: tuple[Interval, ...], n: int) -> None:
        """`intervals` in ascending order, not adjacent, with `n` nodes in all."""
        self.intervals = intervals
        self.n = n

    @classmethod
    def of(cls, nodes: Iterable[int]) -> NodeSet:
        """The set of some nodes in any order.

        Raises ValueError for a duplicate, TypeError for a value that is not an integer.
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
        """Parse a text like `0-3 5`. Raises ValueError.

        Intervals may be adjacent and in any order, but must not overlap.
        """
        parts = (part.partition("-") for part in text.split())
        joined: list[Interval] = []
        for first, last in sorted((int(first), int(last if dash else first)) for first, dash, last in parts):
            if first > last or (joined and first <= joined[-1][1]):
                raise ValueError(f"'{text}' is not a set of nodes like '0-3 5'")
            if joined and first == joined[-1][1] + 1:
                joined[-1] = joined[-1][0], last
            else:
                joined.append((first, last))
        return cls(tuple(joined), sum(last - first + 1 for first, last in joined))

    def within(self, n_nodes: int) -> bool:
        """Whether all nodes are in 0 to n_nodes - 1."""
        return not self.intervals or 0 <= self.intervals[0][0] <= self.intervals[-1][1] < n_nodes

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[int]:
        return (n for first, last in self.intervals for n in range(first, last + 1))

    def __contains__(self, node: object) -> bool:
        return any(isinstance(node, int) and first <= node <= last for first, last in self.intervals)

    def __getitem__(self, k: Any) -> Any:
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
    """The free nodes.

    Stored as bounds in ascending order: alternately the first free and the first occupied node of each
    interval. Taking or giving back nodes toggles the bounds of their intervals: it removes those present
    and inserts those absent. Each interval costs O(log b) for b bounds, plus a shift of the bounds after it.
    """

    __slots__ = ("_bounds", "n")

    def __init__(self, n_nodes: int) -> None:
        self._bounds = [0, n_nodes, maxsize] if n_nodes else [maxsize]
        self.n = n_nodes

    @property
    def intervals(self) -> list[Interval]:
        return [(first, end - 1) for first, end in zip(self._bounds[::2], self._bounds[1::2], strict=False)]

    def has(self, nodes: NodeSet) -> bool:
        """Whether all of them are free."""
        bounds, last_bound = self._bounds, len(self._bounds) - 1
        for first, last in nodes.intervals:
            k = bisect_right(bounds, first, 0, last_bound)  # also for numbers beyond the machine
            if k % 2 == 0 or bounds[k] <= last:
                return False
        return True

    def lowest(self, n: int) -> NodeSet:
        """The n free nodes with the lowest numbers; there must be n."""
        return self.in_order().next(n)

    def in_order(self) -> InOrder:
        return InOrder(self._bounds)

    def take(self, nodes: NodeSet) -> None:
        """Occupy free nodes."""
        self._turn(nodes.intervals)
        self.n -= nodes.n

    def give_back(self, nodes: NodeSet) -> None:
        """Free occupied nodes."""
        self._turn(nodes.intervals)
        self.n += nodes.n

    def _turn(self, intervals: Iterable[Interval]) -> None:
        bounds = self._bounds
        for first, last in intervals:
            k, end = bisect_left(bounds, first), last + 1
            if bounds[k] == first:
                if bounds[k + 1] == end:
                    del bounds[k : k + 2]
                else:
                    bounds[k] = end
            elif bounds[k] == end:
                bounds[k] = first
            else:
                bounds[k:k] = first, end


class InOrder:
    """Hands out free nodes, lowest first, while the free set does not change.

    All calls together cost one walk over the set.
    """

    __slots__ = ("_bounds", "_first", "_k")

    def __init__(self, bounds: list[int]) -> None:
        """`bounds` as those of a `FreeSet`."""
        self._bounds = bounds
        self._k = 0
        self._first = bounds[0]

    def next(self, n: int) -> NodeSet:
        """The next n free nodes; there must be n."""
        bounds, k, first = self._bounds, self._k, self._first
        intervals, left = list[Interval](), n
        while left:
            end = bounds[k + 1]
            if first == end:
                k += 2
                first, end = bounds[k], bounds[k + 1]
            if end > first + left:
                end = first + left
            intervals.append((first, end - 1))
            left -= end - first
            first = end
        self._k, self._first = k, first
        return NodeSet(tuple(intervals), n)
