"""Which of many identical nodes are held."""

from __future__ import annotations

from scheduler.node_set import NodeSet


class HeldNodes:
    """One byte per node says whether it is held, so that many nodes are checked by one search in memory."""

    __slots__ = ("_held",)

    def __init__(self, n_nodes: int) -> None:
        self._held = bytearray(n_nodes)

    def first_of(self, nodes: NodeSet) -> int | None:
        """The first one of these that is held."""
        find = self._held.find
        for first, last in nodes.intervals:
            held = find(1, first, last + 1)
            if held >= 0:
                return held
        return None

    def hold(self, nodes: NodeSet) -> None:
        for first, last in nodes.intervals:
            self._held[first : last + 1] = b"\1" * (last - first + 1)

    def give_back(self, nodes: NodeSet) -> None:
        for first, last in nodes.intervals:
            self._held[first : last + 1] = bytes(last - first + 1)
