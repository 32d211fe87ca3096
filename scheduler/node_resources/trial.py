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

    def __len__(self) -> int:
        """The number of changes so far."""
        return len(self._changes)

    def take(self, kind: int, used: Ints2) -> None:
        """Take what the rows of `used` state; writes GPUs where they name none."""
        self._nodes.take(kind, used)
        self._changes.append((True, kind, used))

    def give_back(self, kind: int, used: Ints2) -> None:
        self._nodes.give_back(kind, used)
        self._changes.append((False, kind, used))

    def undo(self, n_kept: int = 0) -> None:
        """Undo all but the first `n_kept` changes, the last one first."""
        while len(self._changes) > n_kept:
            was_taken, kind, used = self._changes.pop()
            (self._nodes.give_back if was_taken else self._nodes.take)(kind, used)

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.undo()
