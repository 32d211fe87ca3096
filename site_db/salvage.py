"""Saving what is intact of a damaged SQLite file into a new database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import LargeBinary, Table

from site_db.integrity import UNREADABLE, is_readable, reading_damaged
from site_db.migrations import HEAD
from site_db.schema import Base
from site_db.store import Address, DatabaseTrouble, create, in_sentences


@dataclass(frozen=True)
class Saved:
    """Of one table: how many rows were saved and left out, and whether more of them cannot be reached."""

    table: str
    saved: int
    left_out: int
    is_torn: bool


def salvage(damaged: Path, new: Address) -> list[Saved]:
    """Copy all rows that can be read, keep the rules of the schema and refer to rows that were copied.

    A table is read from its beginning and from its end, up to the damage. Raises DatabaseTrouble if the new
    database exists, or nothing can be read.
    """
    if not damaged.is_file():
        raise DatabaseTrouble(f"{damaged}: there is no such file")
    with TemporaryDirectory() as folder, _opened(damaged, Path(folder) / "copy.db") as old:
        _check_version(old, damaged)
        engine = create(new)
        try:
            with in_sentences(new), engine.execution_options(sil_writes=True).begin() as connection:
                driver: Any = connection.connection.driver_connection
                found = [_copy(old, driver, table) for table in Base.metadata.sorted_tables]
                if not any(table.saved for table in found):
                    raise DatabaseTrouble(f"{damaged}: no row of the file can be read")
                return found
        finally:
            engine.dispose()


@contextmanager
def _opened(damaged: Path, copy: Path) -> Iterator[sqlite3.Connection]:
    """A copy of the damaged file, with its write-ahead log. A cut file gets empty pages for those that it
    lacks, without which SQLite would open none of it."""
    for end in ("", "-wal"):
        if (part := Path(f"{damaged}{end}")).is_file():
            copyfile(part, f"{copy}{end}")
    with copy.open("r+b") as file:
        header = file.read(_HEADER)
        if len(header) == _HEADER:
            page = int.from_bytes(header[16:18]) or 1
            n_bytes = (2**16 if page == 1 else page) * int.from_bytes(header[28:32])
            if copy.stat().st_size < n_bytes <= _MOST_GROWTH * copy.stat().st_size:
                file.truncate(n_bytes)
    old = sqlite3.connect(copy)
    try:
        with reading_damaged(old):
            # With it, a table of which the definition is damaged does not keep the others from being read.
            old.execute("PRAGMA writable_schema = ON")
            yield old
    finally:
        old.close()


_HEADER = 100
"""Bytes of the header of an SQLite file: <https://www.sqlite.org/fileformat.html>."""
_MOST_GROWTH = 100


def _check_version(old: sqlite3.Connection, damaged: Path) -> None:
    try:
        versions = old.execute("SELECT version_num FROM alembic_version").fetchall()
    except UNREADABLE:
        return
    if versions and versions != [(HEAD.encode(),)]:
        raise DatabaseTrouble(f"{damaged}: the file is not a site database of version {HEAD}")


def _copy(old: sqlite3.Connection, new: sqlite3.Connection, table: Table) -> Saved:
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    insert = f'INSERT INTO "{table.name}" ({names}) VALUES ({", ".join("?" * len(table.columns))})'
    is_keyed = not table.dialect_options["sqlite"]["with_rowid"]
    key = [f'"{column.name}"' for column in table.primary_key] if is_keyed else ["rowid"]
    n_saved, n_left_out, is_torn = 0, 0, False
    last: tuple[Any, ...] = ()
    for order in ("ASC", "DESC"):
        # Only what the first way did not reach.
        beyond = f"WHERE ({', '.join(key)}) > ({', '.join('?' * len(key))})" if last else ""
        in_order = ", ".join(f"{column} {order}" for column in key)
        rows = f'SELECT {", ".join(key)}, {names} FROM "{table.name}" {beyond} ORDER BY {in_order}'
        try:
            for row in old.execute(rows, last):
                place, values = row[: len(key)], row[len(key) :]
                last = place if order == "ASC" else last
                if is_readable(table, values) and _inserted(new, insert, values, table):
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
