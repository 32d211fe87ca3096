"""Changes to what is free on nodes that are undone."""

from __future__ import annotations

from types import TracebackType

from scheduler.compiled import Ints2
from scheduler.node_resources.state import NodeResources


class Trial:
    """Takes and gives back on the state of nodes, and leaves it as it was found."""

    def __init__(self, nodes: NodeResources) -> None:
        self._nodes = nodes
        self._changes: list[tuple[bool, int, Ints2]] = []
        """Whether it was taken, the kind of the request, and what."""

    def take(self, kind: int, used: Ints2) -> None:
        """Take what the rows of `used` state; writes GPUs where they name none."""
        self._nodes.take(kind, used)
        self._changes.append((True, kind, used))

    def give_back(self, kind: int, used: Ints2) -> None:
        self._nodes.give_back(kind, used)
        self._changes.append((False, kind, used))

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for was_taken, kind_of_request, used in reversed(self._changes):
            (self._nodes.give_back if was_taken else self._nodes.take)(kind_of_request, used)
