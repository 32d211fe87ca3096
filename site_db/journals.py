"""Journals of resource managers that outlive their processes: in a file, or in a database of their own."""

from __future__ import annotations

import fcntl
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any, Self
from zlib import crc32

from sqlalchemy import BigInteger, Column, Integer, MetaData, Table, Text, event, insert, inspect, select

from scheduler import UserError
from scheduler.durability.journal import BadEntry, JournalEntry, entry_of, text_of
from site_db import store
from site_db.migrations import execute_outside
from site_db.store import Address, Damaged, Rejected


class ChainedJournal(ABC):
    """A journal whose entries are stored as texts, each with a checksum (CRC-32) of its text and all texts
    before. So an entry that is changed, missing or in another place is found. Entries that are removed from
    its end are not found: the journal is then one that never had them.

    An entry that could not be appended leaves the manager ahead of its journal. So no other follows, until
    the journal is opened anew, for a manager that is made anew; it then has that entry, or has not."""

    def __init__(self, shown: object, first_place: str) -> None:
        """`shown` is where the journal is, for messages, and `first_place` where its first entry is there."""
        self._shown, self._first_place = str(shown), first_place.split()
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
        """Close the journal, so that others can open it."""
        self._takes_entries = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        return self._shown

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

    def _place(self, number: int) -> str:
        what, first = self._first_place
        return f"{self}, {what} {int(first) + number - 1}"

    @abstractmethod
    def _stored(self) -> Iterator[tuple[int | None, bytes]]:
        """The checksums and texts that are stored, oldest first; None for a damaged checksum."""

    @abstractmethod
    def _store(self, number: int, checksum: int, text: str) -> None:
        """Store entry `number`, counted from 1, durably."""


HEAD = b"sil journal\n"
"""The first line. Files that begin otherwise are left alone."""
_LINE = re.compile(rb"([0-9a-f]{8}) (.*)\n")


class FileJournal(ChainedJournal):
    """A file that only grows: a line for each entry, its checksum and its text.

    The last line may be incomplete, since the process or the computer stopped while it was written. Then it
    was not durable, and opening the journal removes it. One process at a time has a journal open; processes
    that it forks keep it open.
    """

    def __init__(self, path: Path) -> None:
        """Open a journal; make one if there is no such file. Raises UserError if it cannot be opened, is
        damaged, or is open already."""
        super().__init__(path, "line 2")
        self._path = path.absolute()
        self._n_incomplete = 0
        """Bytes of an incomplete last line."""
        with self._in_sentences("opened"):
            self._file = FileIO(self._path, "a+")
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._begin()
                self._check()
                if self._n_incomplete:
                    self._file.truncate(self._file.seek(0, os.SEEK_END) - self._n_incomplete)
                os.fsync(self._file)  # a process that was killed may not have come so far
            except BlockingIOError:
                self._file.close()
                raise UserError(
                    f"{self}: the journal is open already, in this process or another one; end that one first"
                ) from None
            except BaseException:
                self._file.close()
                raise

    def close(self) -> None:
        super().close()
        self._file.close()

    def _begin(self) -> None:
        with self._path.open("rb") as file:
            head = file.read(len(HEAD))
        if head == HEAD:
            return
        if not HEAD.startswith(head):
            raise UserError(f"{self}: this is no journal, which would begin with '{HEAD.decode().strip()}'")
        self._file.truncate(0)
        self._write(HEAD)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)  # which has the file's name
        finally:
            os.close(folder)

    def _stored(self) -> Iterator[tuple[int | None, bytes]]:
        with self._in_sentences("read"), self._path.open("rb") as file:
            file.seek(len(HEAD))
            for line in file:
                if not line.endswith(b"\n"):
                    self._n_incomplete = len(line)
                    return
                found = _LINE.fullmatch(line)
                yield (int(found[1], 16), found[2]) if found else (None, line)

    def _store(self, number: int, checksum: int, text: str) -> None:
        with self._in_sentences("written"):
            self._write(f"{checksum:08x} {text}\n".encode("ascii"))

    def _write(self, line: bytes) -> None:
        """Write a line. Returns when it is on the disk."""
        rest = memoryview(line)
        while rest:
            rest = rest[self._file.write(rest) :]
        os.fsync(self._file)

    @contextmanager
    def _in_sentences(self, done: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(f"{self}: the journal cannot be {done}: {error.strerror}") from None


_ENTRIES = Table(
    "journal_entry",
    MetaData(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("checksum", BigInteger, nullable=False),
    Column("entry", Text, nullable=False),
)
_DURABLY = {"sqlite": "PRAGMA synchronous = FULL", "postgresql": "SET synchronous_commit = on"}


class DatabaseJournal(ChainedJournal):
    """A database with one table, with a row for each entry: an SQLite file, or one on a PostgreSQL server.

    A site's database is no place for it: commits of a journal wait for the disk. Several processes may have
    the journal open, but the numbers of entries admit one writer: an entry is refused once another
    process has appended one.
    """

    def __init__(self, address: Address) -> None:
        """Open a journal; create it in an empty database, or in a new file. Raises DatabaseTrouble if the
        database cannot be used, UserError if it has other tables, or entries that are damaged."""
        super().__init__(address, "entry 1")
        self._engine = store.engine_at(address)
        event.listen(self._engine, "connect", self._wait_for_the_disk)
        try:
            with self._in_sentences(), store.in_sentences(address):
                self._make_table(address.is_sqlite)
            self._check()
            if address.is_sqlite:
                # A process that was killed may not have come so far as to write its last entry to the disk.
                with self._in_sentences(), store.in_sentences(address):
                    execute_outside(self._engine, "PRAGMA wal_checkpoint")
        except BaseException:
            self._engine.dispose()
            raise

    def close(self) -> None:
        super().close()
        self._engine.dispose()

    def _wait_for_the_disk(self, connection: Any, _record: Any) -> None:
        connection.cursor().execute(_DURABLY[self._engine.dialect.name])
        connection.commit()

    def _make_table(self, is_sqlite: bool) -> None:
        tables = inspect(self._engine).get_table_names()
        if _ENTRIES.name in tables:
            return
        if tables:
            raise UserError(f"{self}: this is no journal, but another database; a journal needs its own")
        if is_sqlite:
            execute_outside(self._engine, "PRAGMA journal_mode = WAL")
        with self._engine.begin() as connection:
            _ENTRIES.create(connection)

    def _stored(self) -> Iterator[tuple[int | None, bytes]]:
        rows = select(*_ENTRIES.c).order_by(_ENTRIES.c.number)
        with self._in_sentences(), store.reading(self._engine) as session:
            found = session.execute(rows, execution_options={"yield_per": 1000})
            for k, (number, checksum, text) in enumerate(found, 1):
                yield checksum if number == k else None, str(text).encode()

    def _store(self, number: int, checksum: int, text: str) -> None:
        row = insert(_ENTRIES).values(number=number, checksum=checksum, entry=text)
        try:
            with self._in_sentences(), store.changing(self._engine) as session:
                session.execute(row)
        except Rejected:
            raise UserError(
                f"{self}: another process has appended entry {number} to the journal; end one of the two"
            ) from None

    @contextmanager
    def _in_sentences(self) -> Iterator[None]:
        try:
            yield
        except Damaged:
            raise UserError(f"{self}: the journal is damaged; restore it from a copy") from None
