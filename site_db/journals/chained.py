"""What durable journals have in common: a chain of texts, each with a checksum."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Self
from zlib import crc32

from scheduler import UserError
from scheduler.durability.journal import BadEntry, JournalEntry, entry_of, text_of


class ChainedJournal(ABC):
    """A journal whose entries are stored as texts, each with a checksum (CRC-32) of its text and all texts
    before. So an entry that is changed, missing or in another place is found. Entries that somebody removes
    from the end are not: the journal is then one that never had them.

    An entry that could not be appended leaves the manager ahead of its journal. So no other follows, until
    the journal is opened anew, for a manager that is made anew; it then has that entry, or has not.
    """

    def __init__(self) -> None:
        self._n = self._checksum = 0
        """How many entries there are, and the checksum of the last one."""
        self._takes_entries = True

    def append(self, entry: JournalEntry) -> None:
        """Add an entry. It is durable when this returns.

        Raises BadEntry if it has no text, another UserError if it cannot be stored.
        """
        if not self._takes_entries:
            raise UserError(
                f"{self}: the journal takes no entry, since it is closed or could not take the one before; "
                "open it anew, and make its manager anew"
            )
        self._takes_entries = False
        text = text_of(entry)
        checksum = crc32(text.encode("ascii"), self._checksum)
        self._store(self._n + 1, checksum, text)
        self._n, self._checksum, self._takes_entries = self._n + 1, checksum, True

    def entries(self) -> Iterator[JournalEntry]:
        """All entries, read as they are consumed, oldest first. Raises UserError."""
        for number, (_, text) in enumerate(self._checked(), 1):
            try:
                yield entry_of(text)
            except BadEntry as error:
                raise UserError(f"{self._place(number)}: {error}") from None

    def close(self) -> None:
        """Let others open the journal."""
        self._takes_entries = False
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        """Count the entries that are stored. Raises UserError if they are damaged."""
        for checksum, _ in self._checked():
            self._n, self._checksum = self._n + 1, checksum

    def _checked(self) -> Iterator[tuple[int, bytes]]:
        checksum = 0
        for number, (stored, text) in enumerate(self._stored(), 1):
            checksum = crc32(text, checksum)
            if stored != checksum:
                raise UserError(
                    f"{self._place(number)}: the journal is damaged, here or by the loss of entries before; "
                    "restore it from a copy"
                )
            yield checksum, text

    @abstractmethod
    def _stored(self) -> Iterator[tuple[int | None, bytes]]:
        """The checksums and texts that are stored, oldest first; None for a damaged checksum."""

    @abstractmethod
    def _store(self, number: int, checksum: int, text: str) -> None:
        """Store entry `number`, counted from 1, durably."""

    @abstractmethod
    def _place(self, number: int) -> str:
        """Where entry `number` is, for a message."""

    @abstractmethod
    def _close(self) -> None: ...

    @abstractmethod
    def __str__(self) -> str:
        """Where the journal is, for a message."""
