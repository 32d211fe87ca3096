"""Sets of nodes as closed intervals: independent of the size of the machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import index
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
