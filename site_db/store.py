"""Opening site databases: SQLite files and PostgreSQL servers."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any
from urllib.parse import unquote

from sqlalchemy import URL, Connection, Engine, create_engine, event, exc, make_url
from sqlalchemy.orm import Session

from scheduler import UserError
from site_db import damage
from site_db.migrations import HEAD, OLDEST, make_tables, version_of
from site_db.schema import Base

BUSY_TIMEOUT_S = 30.0
"""The time that a writer waits for another one, in seconds."""
CONNECT_TIMEOUT_S = 5
_UNHEARD = logging.NullHandler()
_SHARED: dict[str, Any] = {}
"""The dialect of all SQLite engines, and the statements compiled for it."""


class DatabaseTrouble(UserError):
    """The database cannot be used. The message is one sentence for the user."""


class Unreachable(DatabaseTrouble):
    """The database is unavailable for now; a retry may succeed."""


class Rejected(DatabaseTrouble):
    """The database rejects the data; a retry is useless."""


class Damaged(DatabaseTrouble):
    """The file of an SQLite database is damaged."""


@dataclass(frozen=True)
class Address:
    """The location of a database, and the name of a site in it (None: the only one)."""

    url: URL
    site: str | None = None

    @classmethod
    def of_file(cls, path: Path | str, site: str | None = None) -> Address:
        return cls(URL.create("sqlite", database=str(path)), site)

    @property
    def is_sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"

    @property
    def path(self) -> Path | None:
        """The file of an SQLite database."""
        return Path(self.url.database) if self.is_sqlite and self.url.database else None

    def __str__(self) -> str:
        url = self.url if self.is_sqlite else self.url.set(drivername="postgresql")
        return str(self.path or url.render_as_string(hide_password=True))


def parse_address(text: str) -> Address:
    """Parse an address as users write it.

    `site.db`, `sqlite:///site.db`, `postgresql://user@host/database`; each may be followed by `#SITE`, that
    of a server also by `/SITE`. Raises DatabaseTrouble for anything else.
    """
    address, _, site = text.partition("#")
    if "://" not in address:
        return Address.of_file(address, unquote(site) or None)
    try:
        url = make_url(address)
    except exc.ArgumentError:
        raise DatabaseTrouble(f"'{text}' is not a database address; {_EXPECTED}") from None
    backend = url.get_backend_name()
    if backend not in ("sqlite", "postgresql") or not url.database:
        raise DatabaseTrouble(f"'{text}' is not a supported database address; {_EXPECTED}")
    if backend == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
        database, _, site_in_path = str(url.database).partition("/")
        url, site = url.set(database=database), site or site_in_path
    return Address(url, unquote(site) or None)


_EXPECTED = "expected a file like site.db, sqlite:///site.db#SITE or postgresql://user@host/database#SITE"


def create(address: Address) -> Engine:
    """Create a database with empty tables, also in a file without any, which a killed process may have left.

    Raises DatabaseTrouble if it exists.
    """
    path = address.path
    if path is not None and path.exists():
        try:
            with closing(sqlite3.connect(path)) as connection:
                has_tables = bool(connection.execute("SELECT 1 FROM sqlite_master").fetchall())
        except sqlite3.Error:
            has_tables = True
        if has_tables:
            raise DatabaseTrouble(f"{address}: the file already exists; choose another name or delete it")
    engine = engine_at(address)
    with in_sentences(address):
        if version_of(engine) is not None:
            raise DatabaseTrouble(f"{address}: a site database already exists")
        make_tables(engine)
    return engine


def replace(path: Path) -> Engine:
    """Create a database in a file, and delete an existing one."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        (path.parent / name).unlink(missing_ok=True)
    return create(Address.of_file(path))


def open_database(address: Address) -> Engine:
    """Open an existing database. Raises DatabaseTrouble if it is missing, cannot be read, is not a site
    database or has another version."""
    engine = open_to_upgrade(address)
    with in_sentences(address):
        version = version_of(engine)
    if version != HEAD:
        raise DatabaseTrouble(
            f"{address}: the database is of an older version ({version}, not {HEAD}); run: sil db upgrade "
            f"--db {quote(str(address))}"
        )
    return engine


def open_to_upgrade(address: Address) -> Engine:
    """As `open_database`, but versions that can be upgraded are accepted."""
    path = address.path
    if path is not None and not path.is_file():
        raise DatabaseTrouble(f"{address}: there is no such file; `sil db init` makes a database")
    engine = engine_at(address)
    with in_sentences(address):
        version = version_of(engine)
    if version is None:
        raise DatabaseTrouble(f"{address}: this is not a site database; `sil db init` makes one")
    if not isinstance(version, str):
        raise Damaged(f"{address}: {DAMAGED}")
    if version < OLDEST:
        raise DatabaseTrouble(
            f"{address}: the database is of version {version}, from before the first release, and cannot be "
            f"upgraded; export its sites with the sil that wrote it, and import them into a new database"
        )
    if version > HEAD:
        raise DatabaseTrouble(
            f"{address}: the database is of a newer version ({version}, not {HEAD}); use the newer version "
            f"of sil"
        )
    return engine


def salvage(damaged: Path, new: Address) -> list[damage.Saved]:
    """Save what is intact of a damaged SQLite file into a new database (`damage.copy_table`). Raises
    DatabaseTrouble if that exists, or nothing can be read."""
    if not damaged.is_file():
        raise DatabaseTrouble(f"{damaged}: there is no such file")
    with damage.copy_of(damaged) as old:
        if not damage.is_of_version(old, HEAD):
            raise DatabaseTrouble(f"{damaged}: the file is not a site database of version {HEAD}")
        engine = create(new)
        try:
            with in_sentences(new), engine.execution_options(sil_writes=True).begin() as connection:
                driver: Any = connection.connection.driver_connection
                saved = [damage.copy_table(old, driver, table) for table in Base.metadata.sorted_tables]
                if not any(table.saved for table in saved):
                    raise DatabaseTrouble(f"{damaged}: no row of the file can be read")
                return saved
        finally:
            engine.dispose()


def open_file(path: Path) -> Engine:
    """Open an existing SQLite file. Raises DatabaseTrouble."""
    return open_database(Address.of_file(path))


def address_of(engine: Engine) -> Address:
    """The address of an engine's database."""
    return Address(engine.url)


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """A session that sees the state of the database at its first query. Raises DatabaseTrouble."""
    if engine.dialect.name == "postgresql":
        engine = engine.execution_options(isolation_level="REPEATABLE READ")
    with in_sentences(address_of(engine)), Session(engine) as session:
        yield session


@contextmanager
def opened(address: Address, is_changed: bool = False) -> Iterator[Session]:
    """A session of an existing database that sees one state of it or, if the database `is_changed`, is
    committed at the end. Raises DatabaseTrouble."""
    engine = open_database(address)
    try:
        with changing(engine) if is_changed else reading(engine) as session:
            yield session
    finally:
        engine.dispose()


@contextmanager
def changing(engine: Engine) -> Iterator[Session]:
    """A session whose transaction is committed at the end, unless an exception is raised.

    On SQLite it holds the write lock from its beginning. Raises DatabaseTrouble.
    """
    engine = engine.execution_options(sil_writes=True)
    with in_sentences(address_of(engine)), Session(engine) as session, session.begin():
        yield session


@contextmanager
def in_sentences(address: Address) -> Iterator[None]:
    """Turn errors of the database driver into DatabaseTrouble or a subclass, and those that follow from a
    damaged SQLite file."""
    try:
        yield
    except exc.DBAPIError as error:
        raise _trouble(address, error) from error
    except UserError:
        raise
    except OF_DAMAGE as error:
        if address.path is None:
            raise
        with closing(sqlite3.connect(address.path)) as connection:
            if next(damage.of_sqlite(connection), None) is None:
                raise
        raise Damaged(f"{address}: {DAMAGED}") from error


OF_DAMAGE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, exc.SQLAlchemyError)
"""Exceptions that may follow from values that no database written by `sil` has, and from messages that quote
them."""


def _trouble(address: Address, error: exc.DBAPIError) -> DatabaseTrouble:
    reason = " ".join(str(error.orig).split())
    if isinstance(error, (exc.IntegrityError, exc.DataError)):
        return Rejected(f"{address}: {reason}")
    if address.is_sqlite:
        found = ((kind, says) for symptom, (kind, says) in _SQLITE.items() if symptom in reason)
        kind, sentence = next(found, (DatabaseTrouble, reason))
        return kind(f"{address}: {sentence}")
    state = getattr(error.orig, "sqlstate", None) or ""
    if sentence := _POSTGRESQL.get(state, ""):
        return Unreachable(f"{address}: {sentence}")
    # Without a state there was no connection. A server that answers FATAL is up and mostly means it.
    no_connection = not state and ("FATAL" not in reason or any(each in reason for each in _PASSING_REFUSALS))
    if error.connection_invalidated or state.startswith(_PASSING_STATES) or no_connection:
        return Unreachable(f"{address}: the server does not answer: {reason}")
    return DatabaseTrouble(f"{address}: {reason}")


_PASSING_STATES = ("08", "57", "53", "58", "40")
"""The first digits of states that pass: lost connections, interrupted statements, lack of resources, failing
disks, deadlocks."""
_PASSING_REFUSALS = ("the database system is", "too many", "connection slots", "No space left")
"""Texts of refusals that pass: the server starts, stops or recovers, has too many connections, or its disk is
full."""
DAMAGED = (
    "the database file is damaged; restore it from a copy, or save what is intact: "
    "sil db salvage NEW.db --db DAMAGED.db"
)
_FULL = "there is no space left for the database"
_FAILING = "the database cannot be read or written: the disk or the network file system fails"
_LOCKED = "another process keeps the database locked; try again when it is done"
_POSTGRESQL = {"53100": _FULL, "58030": _FAILING, "55P03": _LOCKED}
"""The error and the sentence for a state of PostgreSQL."""
_SQLITE: dict[str, tuple[type[DatabaseTrouble], str]] = {
    "database is locked": (Unreachable, _LOCKED),
    "locking protocol": (Unreachable, _LOCKED),
    # A write-ahead log is written beside the database while it is read.
    "readonly database": (
        DatabaseTrouble,
        "the file or its folder may not be written, which SQLite needs; change the permissions, or copy the "
        "file into a folder of yours",
    ),
    "unable to open": (
        DatabaseTrouble,
        "the database cannot be opened; its folder must exist and be writable for SQLite",
    ),
    "not a database": (DatabaseTrouble, "this is not an SQLite database"),
    "disk is full": (Unreachable, _FULL),
    "disk I/O error": (Unreachable, _FAILING),
    "malformed": (Damaged, DAMAGED),
    "Could not decode": (Damaged, DAMAGED),
}
"""The error and the sentence for what SQLite's driver says."""


def engine_at(address: Address) -> Engine:
    """An engine for any database, which need not exist. Raises DatabaseTrouble without the driver for it."""
    options: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "sil"}
    if address.is_sqlite:
        options = {"timeout": BUSY_TIMEOUT_S}
    try:
        engine = create_engine(address.url, connect_args=options)
    except (exc.NoSuchModuleError, ModuleNotFoundError):
        raise DatabaseTrouble(
            "PostgreSQL needs the package psycopg, which is not installed; run: "
            "pip install 'sil-testbed[postgres]'"
        ) from None
    if address.is_sqlite:
        # Commands open many small files, for which compiling statements takes longer than executing them.
        engine.dialect = _SHARED.setdefault("dialect", engine.dialect)
        engine = engine.execution_options(compiled_cache=_SHARED.setdefault("statements", {}))
        event.listen(engine, "connect", _prepare_sqlite)
    else:
        # What the driver notes of a lost connection, an error says as well.
        logging.getLogger("psycopg").addHandler(_UNHEARD)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # The driver would begin the transaction only at the first change, after the reads.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")
    # With a write-ahead log this survives a killed process; only a power failure may lose the last commits.
    connection.execute("PRAGMA synchronous = NORMAL")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("sil_writes", False)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
    elif writes:
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{BUSY_TIMEOUT_S:g}s'")
