"""Damage of a database: what its own check finds, values that cannot be read, and saving what is intact of an
SQLite file into a new database."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import JSON, Boolean, Column, Float, Integer, LargeBinary, String, Table, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from scheduler.messages import counted
from site_db.files.input_errors import quoted
from site_db.schema import Base

MAX_REPORTED = 5
"""The most findings of a kind that are named."""
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged file raises; the second comes from the driver, whose messages quote the file."""
_AMCHECK = "SELECT 1 FROM pg_extension WHERE extname = 'amcheck'"
_INDEXES = """
    SELECT c.oid, c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    JOIN pg_class t ON t.oid = i.indrelid JOIN pg_am a ON a.oid = c.relam
    WHERE t.relname = ANY(:tables) AND a.amname = 'btree' AND pg_table_is_visible(t.oid) ORDER BY c.relname
"""


def damages(session: Session) -> Iterator[str]:
    """A sentence for each damage: of the file or of the server's storage, then of values.

    SQLite checks its pages, indexes, constraints and foreign keys; PostgreSQL its indexes and tables, where
    the extension amcheck is installed. Then each row is read.
    """
    connection = session.connection()
    if connection.dialect.name == "sqlite":
        driver: Any = connection.connection.driver_connection
        yield from of_sqlite(driver)
        return
    names = [table.name for table in Base.metadata.sorted_tables]
    if session.scalar(text(_AMCHECK)):
        for oid, name in session.execute(text(_INDEXES), {"tables": names}).all():
            yield from _asked(session, f"the index {name}", text(f"SELECT bt_index_check({oid}, true)"))
        for name in names:
            check = text(f"SELECT msg FROM verify_heapam('\"{name}\"') LIMIT 1")
            yield from _asked(session, f"the table {name}", check)
    for table in Base.metadata.sorted_tables:
        yield from _asked(session, f"the table {table.name}", select(*table.columns), messages=False)


def _asked(session: Session, what: str, query: Any, messages: bool = True) -> Iterator[str]:
    try:
        with session.begin_nested():
            found = [row[0] for row in session.execute(query) if messages]
    except (DBAPIError, ValueError) as error:
        found = [str(error.orig if isinstance(error, DBAPIError) else error)]
    yield from (f"{what} is damaged: {' '.join(message.split())}" for message in found if message)


def of_sqlite(driver: sqlite3.Connection) -> Iterator[str]:
    """A sentence for each damage of an SQLite file, as `damages`."""
    with _texts_as_bytes(driver):
        yield from _findings(driver)
        for table in Base.metadata.sorted_tables:
            try:
                rows = driver.execute(f'SELECT {_names(table)} FROM "{table.name}"')
                n = sum(not all(map(_fits, table.columns, row)) for row in rows)
            except UNREADABLE as error:
                yield f"the table {table.name} cannot be read: {_reason(error)}"
                continue
            if n:
                yield f"the table {table.name} has {counted(n, 'row')} with values that cannot be read"


def _findings(driver: sqlite3.Connection) -> Iterator[str]:
    def shown(found: bytes) -> str:
        return quoted(found.decode(errors="replace")).strip("'")

    try:
        found = driver.execute(f"PRAGMA integrity_check({MAX_REPORTED})").fetchall()
        if found != [(b"ok",)]:
            yield from (f"SQLite's check finds: {shown(row[0])}" for row in found)
        lost = Counter((row[0], row[2]) for row in driver.execute("PRAGMA foreign_key_check"))
        for (table, parent), n in lost.items():
            what = f"{counted(n, 'row')} of the table {shown(table)}"
            yield f"{what} {'refers' if n == 1 else 'refer'} to rows of {shown(parent)} that are missing"
    except UNREADABLE as error:
        yield f"SQLite's check ends with: {_reason(error)}"


@contextmanager
def _texts_as_bytes(driver: sqlite3.Connection) -> Iterator[None]:
    """Read texts as bytes within this context, since they may be no texts."""
    before, driver.text_factory = driver.text_factory, bytes
    try:
        yield
    finally:
        driver.text_factory = before


def _reason(error: Exception) -> str:
    return "its text is damaged" if isinstance(error, UnicodeDecodeError) else str(error)


def _names(table: Table) -> str:
    return ", ".join(f'"{column.name}"' for column in table.columns)


def _fits(column: Column[Any], value: Any) -> bool:
    """Whether a value, of which a text is read as bytes, is of the type of its column."""
    if value is None:
        return bool(column.nullable)
    match column.type:
        case Boolean():
            return value in (0, 1)
        case Integer():
            return isinstance(value, int)
        case Float():
            return isinstance(value, int | float)
        case JSON() | String():
            try:
                decoded = value.decode() if isinstance(value, bytes) else "\0"
                if isinstance(column.type, JSON):
                    json.loads(value)
            except (ValueError, RecursionError, TypeError):
                return False
            return "\0" not in decoded
        case LargeBinary():
            return isinstance(value, bytes)
    return True


@dataclass(frozen=True)
class Saved:
    """What was saved of one table: how many rows were saved and left out, and whether more of them cannot be
    reached."""

    table: str
    saved: int
    left_out: int
    is_torn: bool


@contextmanager
def copy_of(damaged: Path) -> Iterator[sqlite3.Connection]:
    """A copy of a damaged file, of which what is intact can be read, with texts as bytes."""
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        _copy_file(damaged, copy)
        with closing(sqlite3.connect(copy)) as old, _texts_as_bytes(old):
            # With it, a table of which the definition is damaged does not keep the others from being read.
            old.execute("PRAGMA writable_schema = ON")
            yield old


_HEADER = 100
"""The bytes of the header of an SQLite file: <https://www.sqlite.org/fileformat.html>."""
_MAX_GROWTH = 100


def _copy_file(damaged: Path, copy: Path) -> None:
    """Copy a file with its write-ahead log. A cut file gets empty pages for those that it lacks, without
    which SQLite would open none of it."""
    for end in ("", "-wal"):
        if (part := Path(f"{damaged}{end}")).is_file():
            copyfile(part, f"{copy}{end}")
    with copy.open("r+b") as file:
        header = file.read(_HEADER)
        if len(header) == _HEADER:
            page = int.from_bytes(header[16:18]) or 1
            n_bytes = (2**16 if page == 1 else page) * int.from_bytes(header[28:32])
            if copy.stat().st_size < n_bytes <= _MAX_GROWTH * copy.stat().st_size:
                file.truncate(n_bytes)


def is_of_version(old: sqlite3.Connection, version: str) -> bool:
    """Whether a database is of a version; true if its version cannot be read."""
    try:
        versions = old.execute("SELECT version_num FROM alembic_version").fetchall()
    except UNREADABLE:
        return True
    return versions in ([], [(version.encode(),)])


def copy_table(old: sqlite3.Connection, new: sqlite3.Connection, table: Table) -> Saved:
    """Copy the rows of a table that can be read, keep the rules of the schema and refer to rows that were
    copied. It is read from its beginning and from its end, up to the damage."""
    marks = ", ".join("?" * len(table.columns))
    insert = f'INSERT INTO "{table.name}" ({_names(table)}) VALUES ({marks})'
    is_keyed = not table.dialect_options["sqlite"]["with_rowid"]
    key = [f'"{column.name}"' for column in table.primary_key] if is_keyed else ["rowid"]
    n_saved, n_left_out, is_torn = 0, 0, False
    last: tuple[Any, ...] = ()
    for order in ("ASC", "DESC"):
        # Only what the first way did not reach.
        beyond = f"WHERE ({', '.join(key)}) > ({', '.join('?' * len(key))})" if last else ""
        in_order = ", ".join(f"{column} {order}" for column in key)
        rows = f'SELECT {", ".join(key)}, {_names(table)} FROM "{table.name}" {beyond} ORDER BY {in_order}'
        try:
            for row in old.execute(rows, last):
                place, values = row[: len(key)], row[len(key) :]
                last = place if order == "ASC" else last
                if all(map(_fits, table.columns, values)) and _inserted(new, insert, values, table):
                    n_saved += 1
                else:
                    n_left_out += 1
            break
        except UNREADABLE:
            is_torn = True
    return Saved(table.name, n_saved, n_left_out, is_torn)


def _inserted(new: sqlite3.Connection, insert: str, values: Sequence[Any], table: Table) -> bool:
    decoded = [
        value.decode() if isinstance(value, bytes) and not isinstance(column.type, LargeBinary) else value
        for value, column in zip(values, table.columns, strict=True)
    ]
    try:
        new.execute(insert, decoded)
    except sqlite3.IntegrityError:
        return False
    return True
