"""A journal in a database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import BigInteger, Column, Integer, MetaData, Table, Text, event, insert, inspect, select

from scheduler import UserError
from site_db import store
from site_db.journals.file_journal import ChainedJournal
from site_db.migrations import execute_outside
from site_db.store import Address, Damaged, Rejected

_ENTRIES = Table(
    "journal_entry",
    MetaData(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("checksum", BigInteger, nullable=False),
    Column("entry", Text, nullable=False),
)
_DURABLY = {"sqlite": "PRAGMA synchronous = FULL", "postgresql": "SET synchronous_commit = on"}
_AT_A_TIME = 1000


class DatabaseJournal(ChainedJournal):
    """A database with one table, with a row for each entry: an SQLite file, or one on a PostgreSQL server.

    A site's database is no place for it: commits of a journal wait for the disk. Several processes may have
    the journal open, but the numbers of entries admit one writer: an entry is refused once another
    process has appended one.
    """

    def __init__(self, address: Address) -> None:
        """Open a journal; make it in an empty database, or in a new file. Raises DatabaseTrouble if the
        database cannot be used, UserError if it has other tables, or entries that are damaged."""
        super().__init__()
        self._address = address
        self._engine = store.engine_at(address)
        event.listen(self._engine, "connect", self._wait_for_the_disk)
        try:
            self._make_table()
            self._check()
            if address.is_sqlite:
                # A process that was killed may not have come so far as to write its last entry to the disk.
                with self._in_sentences(), store.in_sentences(address):
                    execute_outside(self._engine, "PRAGMA wal_checkpoint")
        except BaseException:
            self._engine.dispose()
            raise

    def __str__(self) -> str:
        return str(self._address)

    def _place(self, number: int) -> str:
        return f"{self}, entry {number}"

    def _close(self) -> None:
        self._engine.dispose()

    def _wait_for_the_disk(self, connection: Any, _record: Any) -> None:
        connection.cursor().execute(_DURABLY[self._engine.dialect.name])
        connection.commit()

    def _make_table(self) -> None:
        with self._in_sentences(), store.in_sentences(self._address):
            tables = inspect(self._engine).get_table_names()
            if _ENTRIES.name in tables:
                return
            if tables:
                raise UserError(f"{self}: this is no journal, but another database; a journal needs its own")
            if self._address.is_sqlite:
                execute_outside(self._engine, "PRAGMA journal_mode = WAL")
            with self._engine.begin() as connection:
                _ENTRIES.create(connection)

    def _stored(self) -> Iterator[tuple[int | None, bytes]]:
        rows = select(*_ENTRIES.c).order_by(_ENTRIES.c.number)
        with self._in_sentences(), store.reading(self._engine) as session:
            found = session.execute(rows, execution_options={"yield_per": _AT_A_TIME})
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
