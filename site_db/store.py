"""The store behind the site database: an SQLite file, made by itself."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.pool import StaticPool

from site_db.schema import Base


def create(path: Path) -> Engine:
    """A new, empty database in a file; one that is there is replaced."""
    path.unlink(missing_ok=True)
    engine = open_file(path)
    Base.metadata.create_all(engine)
    return engine


def open_file(path: Path) -> Engine:
    """The database in the file at `path`."""
    return _with_foreign_keys(create_engine(URL.create("sqlite", database=str(path))))


def private_copy(path: Path) -> Engine:
    """The database at `path` as a copy in memory: what is learned there leaves the file as it is."""
    memory = sqlite3.connect(":memory:", check_same_thread=False)
    # Read only, so that a file that is not there is an error and does not come into being, empty.
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as on_disk:
        on_disk.backup(memory)
    return _with_foreign_keys(create_engine("sqlite://", creator=lambda: memory, poolclass=StaticPool))


def _with_foreign_keys(engine: Engine) -> Engine:
    @event.listens_for(engine, "connect")
    def switch_on(connection: sqlite3.Connection, _record: Any) -> None:
        connection.execute("PRAGMA foreign_keys = ON")

    return engine
