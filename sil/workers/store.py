"""Results of finished items in an SQLite file, so that an interrupted command can resume."""

from __future__ import annotations

import json
import sqlite3
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from errno import ENOSPC
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from scheduler import UserError
from site_db.files.access import no_link

if TYPE_CHECKING:
    from pydantic import TypeAdapter

BUSY_TIMEOUT_S = 30.0
TABLE = "result"
MISSING = object()
"""Stands for a result that is not stored."""


class Store:
    """Results by key, in the file `path` (None: in memory), which is made when the first one is stored.

    A result is JSON, which can hold no code, and is read as a value of a given type, since the file may come
    from another user: numbers, texts, bytes, collections, named tuples and dataclasses.

    Several commands may use one file at once. A result that was stored survives the end of this process,
    however that ends. All methods raise UserError, and OSError if the disk is full."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        if path is None or path.exists():
            self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def get(self, key: str, kind: Any = Any) -> Any:
        """The result of that key, a value of the type `kind`, or MISSING."""
        if self._connection is None:
            return MISSING
        row = self._first(f"SELECT value FROM {TABLE} WHERE key = ?", key)
        if row is None:
            return MISSING
        with self.reading():
            return _adapter(kind).validate_json(row[0], strict=True)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Within this context, an exception means that a result cannot be read: UserError."""
        try:
            yield
        except Exception:  # of any kind, since a result may have any content
            raise self._damaged() from None

    def has_prefix(self, prefix: str) -> bool:
        """Whether there is a key that starts with `prefix`."""
        query = f"SELECT 1 FROM {TABLE} WHERE key >= ? AND key < ?"
        return self._connection is not None and self._first(query, prefix, f"{prefix}\U0010ffff") is not None

    def put(self, key: str, value: Any) -> None:
        """Store a result; one that is stored already stays."""
        if self._connection is None:
            self._open()
        text = json.dumps(value, default=_plain, separators=(",", ":"))
        self._first(f"INSERT OR IGNORE INTO {TABLE} VALUES (?, ?)", key, text.encode())

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def remove(self) -> None:
        """Close and delete the file."""
        self.close()
        if self._path is not None:
            for ending in ("", "-wal", "-shm"):
                self._path.with_name(self._path.name + ending).unlink(missing_ok=True)

    def _open(self) -> None:
        if self._path is not None:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                no_link(self._path)
            except OSError as error:
                raise UserError(f"{self._path}: its folder cannot be created: {error.strerror}") from None
        try:
            self._connection = sqlite3.connect(
                self._path or ":memory:", timeout=BUSY_TIMEOUT_S, isolation_level=None
            )
        except sqlite3.Error as error:
            raise UserError(f"{self._path}: the file cannot be opened ({error})") from None
        try:
            self._checked(self._prepare)
        except BaseException:
            self.close()
            raise

    def _prepare(self, connection: sqlite3.Connection) -> None:
        # A file that was cut off may show it only much later, in the middle of a command.
        if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise self._damaged()
        tables = connection.execute(
            "SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'"
        ).fetchall()
        if tables not in ([], [(TABLE,)]):
            raise UserError(f"{self._path}: this is a different database, not a store of finished runs")
        # With a write-ahead log, this survives a killed process; only a power cut may lose the last commits.
        _use_write_ahead_log(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} (key TEXT PRIMARY KEY, value BLOB NOT NULL)")

    def _first(self, statement: str, *values: str | bytes) -> Any:
        return self._checked(lambda connection: connection.execute(statement, values).fetchone())

    def _checked(self, access: Callable[[sqlite3.Connection], Any]) -> Any:
        """What `access` returns, with the errors of SQLite as sentences."""
        assert self._connection is not None
        try:
            return access(self._connection)
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code == sqlite3.SQLITE_FULL:
                raise OSError(ENOSPC, "the disk is full", str(self._path)) from None
            if code == sqlite3.SQLITE_NOTADB:
                raise UserError(f"{self._path}: this is not an SQLite database") from None
            if code == sqlite3.SQLITE_CORRUPT:
                raise self._damaged() from None
            raise UserError(f"{self._path}: the file cannot be used ({error})") from None

    def _damaged(self) -> UserError:
        return UserError(f"{self._path}: the file is damaged; delete it, and its runs will be repeated")


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """SQLite does not wait for another command that does the same to a new file."""
    until_s = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until_s:
                raise
            time.sleep(0.01)


@lru_cache(8)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # takes longer to load than a short command

    return TypeAdapter(kind)


def _plain(value: object) -> object:
    """A value that JSON does not know, as something that it knows."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    raise TypeError(f"{type(value).__name__} is no value of a result")
