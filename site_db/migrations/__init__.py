"""Versions of the schema. A new database is made at the latest one; an older one is brought there by Alembic.

Each version is a file in `versions`; CONTRIBUTING.md says what a new one needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, insert, inspect, select

from site_db.schema import Base

HEAD = "0003"
BEFORE_VERSIONS = "0001"
"""The schema of release 0.1.0, which did not write down its version."""

_VERSION = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))


def version_of(engine: Engine) -> str | None:
    """The version of a database; None where it is no site database."""
    with engine.connect() as connection:
        tables = inspect(connection)
        if tables.has_table(_VERSION.name):
            return connection.scalar(select(_VERSION.c.version_num))
        return BEFORE_VERSIONS if tables.has_table("execution_history") else None


def make_tables(engine: Engine) -> None:
    """All tables of the latest version in an empty database."""
    if engine.dialect.name == "sqlite":
        # Kept in the file: readers do not wait for a writer, nor it for them.
        _execute_outside(engine, "PRAGMA journal_mode = WAL")
    with engine.begin() as connection:
        Base.metadata.create_all(connection)
        _VERSION.create(connection)
        connection.execute(insert(_VERSION).values(version_num=HEAD))


def upgrade(engine: Engine, to: str = "head") -> None:
    """Bring a database to a later version; all steps are one transaction."""
    from alembic import command
    from alembic.config import Config

    version = version_of(engine)
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.set_main_option("path_separator", "os")
    with _changing(engine) as connection:
        if version == BEFORE_VERSIONS and not inspect(connection).has_table(_VERSION.name):
            _VERSION.create(connection)
            connection.execute(insert(_VERSION).values(version_num=BEFORE_VERSIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, to)


@contextmanager
def _changing(engine: Engine) -> Iterator[Connection]:
    """A connection on which tables may be changed, in one transaction."""
    if engine.dialect.name != "sqlite":
        with engine.begin() as connection:
            yield connection
        return
    # Tables that others refer to could not be dropped; and the pragma has no effect inside a transaction.
    with engine.execution_options(sil_writes=True).connect() as connection:
        driver: Any = connection.connection.driver_connection
        driver.execute("PRAGMA foreign_keys = OFF")
        with connection.begin():
            yield connection
        driver.execute("PRAGMA foreign_keys = ON")
    _execute_outside(engine, "PRAGMA journal_mode = WAL")


def _execute_outside(engine: Engine, statement: str) -> None:
    """Outside of any transaction."""
    connection = engine.raw_connection()
    try:
        connection.cursor().execute(statement)
    finally:
        connection.close()
