"""Versions of the schema. A new database is made at the latest one; an older one is brought there by Alembic.

Each version is a file in `versions`; CONTRIBUTING.md says what a new one needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, insert, inspect, select

from site_db.schema import Base

HEAD = "0002"
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
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
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
    # Python's driver begins no transaction for changes of tables, so this does it by hand.
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.exec_driver_sql("ROLLBACK")
            raise
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("PRAGMA journal_mode = WAL")
        connection.exec_driver_sql("PRAGMA foreign_keys = ON")
