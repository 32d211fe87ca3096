"""The journal of a resource manager."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol


class JournalEntry(NamedTuple):
    """One call of a resource manager: the method and its arguments, what it read through its ports, in order,
    and what it ordered: the names of methods of ports, and their arguments."""

    method: str
    arguments: tuple[Any, ...]
    reads: tuple[Any, ...]
    orders: tuple[tuple[str, tuple[Any, ...]], ...]


class Journal(Protocol):
    """What a resource manager remembers when its process ends. It grows with each call."""

    def append(self, entry: JournalEntry) -> None:
        """Add an entry. It is durable when this returns. Raises UserError if it cannot be stored; then the
        manager is ahead of its journal, which takes no further entry until it is opened anew."""
        ...

    def entries(self) -> Iterable[JournalEntry]:
        """All entries, oldest first."""
        ...
