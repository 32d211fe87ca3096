"""Versions of the schema. A new database gets the latest one at once; Alembic upgrades an older database.

Each version is a module in `versions`; CONTRIBUTING.md describes how to add one.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine.mock import MockConnection

from site_db.schema import Base
from site_db.schema.resources import use_options_of_postgresql

OLDEST, HEAD = "0005", "0006"
"""The oldest version that can be upgraded, and the latest one. Those before were never released."""

_VERSION = sa.Table(
    "alembic_version", sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True)
)


def version_of(engine: sa.Engine) -> str | None:
    """The version of a database; None if it is not a site database."""
    with engine.connect() as connection:
        if sa.inspect(connection).has_table(_VERSION.name):
            return connection.scalar(sa.select(_VERSION.c.version_num))
        return None


def make_tables(engine: sa.Engine) -> None:
    """Create all tables of the latest version in an empty database."""
    is_sqlite = engine.dialect.name == "sqlite"
    if is_sqlite:
        # Stored in the file: readers and the writer do not block one another.
        execute_outside(engine, "PRAGMA journal_mode = WAL")
    else:
        use_options_of_postgresql()
    with engine.begin() as connection:
        if is_sqlite:
            for statement in _tables_of_sqlite():
                connection.exec_driver_sql(statement)
        else:
            Base.metadata.create_all(connection)
            _VERSION.create(connection)
        connection.execute(sa.insert(_VERSION).values(version_num=HEAD))


@cache
def _tables_of_sqlite() -> list[str]:
    """The statements that create all tables, which take longer to compile than to execute: plans make a small
    file for each option."""
    found: list[str] = []
    engine: MockConnection = sa.create_mock_engine(
        "sqlite://", lambda made, *_: found.append(str(made.compile(dialect=engine.dialect)))
    )
    Base.metadata.create_all(engine, checkfirst=False)
    _VERSION.create(engine, checkfirst=False)
    return found


def upgrade(engine: sa.Engine) -> None:
    """Upgrade a site database, in one transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.set_main_option("path_separator", "os")
    with engine.execution_options(sil_writes=True).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def execute_outside(engine: sa.Engine, statement: str) -> None:
    """Execute a statement outside of any transaction."""
    connection = engine.raw_connection()
    try:
        connection.cursor().execute(statement)
    finally:
        connection.close()
