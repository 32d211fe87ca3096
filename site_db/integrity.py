"""Damage of a database: what its own check finds, and values that cannot be read."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import JSON, Boolean, Column, Float, Integer, LargeBinary, String, Table, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from scheduler.messages import counted
from site_db.files.input_errors import quoted
from site_db.schema import Base

MOST_REPORTED = 5
"""Findings of a kind that are named."""
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
    else:
        yield from _of_postgresql(session)


def of_sqlite(driver: sqlite3.Connection) -> Iterator[str]:
    """As `damages`."""
    with reading_damaged(driver):
        yield from _findings(driver)
        for table in Base.metadata.sorted_tables:
            try:
                n = sum(not is_readable(table, row) for row in driver.execute(_all_of(table)))
            except UNREADABLE as error:
                yield f"the table {table.name} cannot be read: {reason(error)}"
                continue
            if n:
                yield f"the table {table.name} has {counted(n, 'row')} with values that cannot be read"


def _findings(driver: sqlite3.Connection) -> Iterator[str]:
    """Of SQLite's own checks."""
    try:
        found = driver.execute(f"PRAGMA integrity_check({MOST_REPORTED})").fetchall()
        if found != [(b"ok",)]:
            yield from (f"SQLite's check finds: {_shown(row[0])}" for row in found)
        lost = Counter((row[0], row[2]) for row in driver.execute("PRAGMA foreign_key_check"))
        for (table, parent), n in lost.items():
            what = f"{counted(n, 'row')} of the table {_shown(table)}"
            yield f"{what} {'refers' if n == 1 else 'refer'} to rows of {_shown(parent)} that are missing"
    except UNREADABLE as error:
        yield f"SQLite's check ends with: {reason(error)}"


UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged file raises; the second comes from the driver, whose messages quote the file."""


@contextmanager
def reading_damaged(driver: sqlite3.Connection) -> Iterator[None]:
    """Texts are read as bytes, since they may be no texts."""
    before, driver.text_factory = driver.text_factory, bytes
    try:
        yield
    finally:
        driver.text_factory = before


def reason(error: Exception) -> str:
    return "its text is damaged" if isinstance(error, UnicodeDecodeError) else str(error)


def is_readable(table: Table, row: Sequence[object]) -> bool:
    """Whether the values of a row, with texts as bytes, are of the types of its columns."""
    return all(map(_fits, table.columns, row))


def _fits(column: Column[Any], value: Any) -> bool:
    if value is None:
        return bool(column.nullable)
    match column.type:
        case Boolean():
            return value in (0, 1)
        case Integer():
            return isinstance(value, int)
        case Float():
            return isinstance(value, int | float)
        case JSON():
            return _is_text(value) and _is_json(value)
        case String():
            return _is_text(value)
        case LargeBinary():
            return isinstance(value, bytes)
    return True


def _is_text(value: Any) -> bool:
    try:
        return isinstance(value, bytes) and "\0" not in value.decode()
    except UnicodeDecodeError:
        return False


def _is_json(value: bytes) -> bool:
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return False
    return True


def _all_of(table: Table) -> str:
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    return f'SELECT {names} FROM "{table.name}"'


def _shown(text: bytes) -> str:
    return quoted(text.decode(errors="replace")).strip("'")


def _of_postgresql(session: Session) -> Iterator[str]:
    if session.scalar(text(_AMCHECK)):
        names = [table.name for table in Base.metadata.sorted_tables]
        for oid, name in session.execute(text(_INDEXES), {"tables": names}).all():
            yield from _asked(session, f"the index {name}", f"SELECT bt_index_check({oid}, true)")
        for name in names:
            yield from _asked(
                session, f"the table {name}", f"SELECT msg FROM verify_heapam('\"{name}\"') LIMIT 1"
            )
    for table in Base.metadata.sorted_tables:
        yield from _asked(session, f"the table {table.name}", select(*table.columns))


def _asked(session: Session, what: str, query: Any) -> Iterator[str]:
    """What is wrong with a thing of which a query raises an error, or returns a message about it."""
    try:
        with session.begin_nested():
            rows = session.execute(text(query) if isinstance(query, str) else query)
            found = [row[0] for row in rows] if isinstance(query, str) else _read_all(rows)
    except (DBAPIError, ValueError) as error:
        found = [str(error.orig if isinstance(error, DBAPIError) else error)]
    yield from (f"{what} is damaged: {' '.join(message.split())}" for message in found if message)


def _read_all(rows: Any) -> list[str]:
    for _ in rows:
        pass
    return []
