"""Rows of the database: ids by name, the lock of a site, and bulk changes without the ORM's unit of work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select, update
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from site_db.schema import Base, OfSite, SiteRow

Rows = Sequence[Mapping[str, Any]]
"""All of them with the same columns, in the same order."""


def ids_of(session: Session, row: type[OfSite], site_id: int, **values: Any) -> dict[str, int]:
    """The ids of a site's rows of one kind by name, in site order; only rows with these values, if any."""
    query = select(row.name, row.id).filter_by(site_id=site_id, **values).order_by(row.position, row.id)
    return dict(session.execute(query).all())


def locked_site(session: Session, name: str, description: str = "") -> SiteRow:
    """The row of a site to be changed, which is created if there is none of that name.

    Other writers of the site wait until the transaction ends, and detect the change by the site's version.
    """
    new: dict[str, Any] = {"name": name, "description": description, "only_listed_users": False}
    new |= dict.fromkeys(("runs_recorded", "runs_pruned", "snapshot_at", "jobs_recorded", "version"), 0)
    insert: Any = sqlite.insert
    if session.get_bind().dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql  # which loads the drivers' dialects, too

        insert = postgresql.insert
    session.execute(insert(SiteRow).values(**new).on_conflict_do_nothing(index_elements=["name"]))
    session.execute(update(SiteRow).where(SiteRow.name == name).values(version=SiteRow.version + 1))
    query = select(SiteRow).where(SiteRow.name == name).execution_options(populate_existing=True)
    return session.scalars(query).one()


def insert_rows(session: Session, table: type[Base], rows: Rows) -> None:
    """Insert rows. Raises DBAPIError."""
    if rows and session.connection().dialect.name == "postgresql":
        _copy(session.connection(), _sql(session, table, rows, "COPY {table} ({columns}) FROM STDIN"), rows)
    else:
        _execute(session, table, rows, "INSERT INTO {table} ({columns}) VALUES ({marks})")


def update_rows(session: Session, table: type[Base], ids: Sequence[int], rows: Rows) -> None:
    """Write new values into the rows with these ids. Raises DBAPIError."""
    statement = "UPDATE {table} SET ({columns}) = ({marks}) WHERE id = {mark}"
    if _execute(session, table, rows, statement, ids) != len(rows):
        raise RuntimeError(f"{len(rows)} rows of {table.__tablename__} were to be updated, but not all exist")


def add_to_rows(session: Session, table: type[Base], rows: Rows) -> None:
    """Add numbers to the rows with these primary keys; a missing row is inserted.

    Raises DBAPIError.
    """
    keys = [column.name for column in table.__table__.primary_key]
    added = [column for column in (rows[0] if rows else ()) if column not in keys]
    sums = ", ".join(f'"{column}" = {{table}}."{column}" + excluded."{column}"' for column in added)
    listed = ", ".join(f'"{key}"' for key in keys)
    insert = "INSERT INTO {table} ({columns}) VALUES ({marks})"
    _execute(session, table, rows, f"{insert} ON CONFLICT ({listed}) DO UPDATE SET {sums}")


def _execute(session: Session, table: type[Base], rows: Rows, statement: str, ids: Sequence[int] = ()) -> int:
    """Execute a statement (`_sql`) with the values of each row, perhaps before an id. Returns the number of
    rows that it changed."""
    if not rows:
        return 0
    after: list[tuple[int, ...]] = [(id,) for id in ids] or [()] * len(rows)
    values = [(*row.values(), *id) for row, id in zip(rows, after, strict=True)]
    return session.connection().exec_driver_sql(_sql(session, table, rows, statement), values).rowcount


def _sql(session: Session, table: type[Base], rows: Rows, statement: str) -> str:
    mark = "%s" if session.connection().dialect.name == "postgresql" else "?"
    columns, marks = ", ".join(f'"{column}"' for column in rows[0]), ", ".join([mark] * len(rows[0]))
    return statement.format(table=f'"{table.__tablename__}"', columns=columns, marks=marks, mark=mark)


def _copy(connection: Connection, statement: str, rows: Rows) -> None:
    """Run COPY, which SQLAlchemy does not support; errors become those that it would raise."""
    driver: Any = connection.connection.driver_connection
    dialect = connection.dialect
    errors: Any = dialect.loaded_dbapi
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(tuple(row.values()))
    except errors.Error as error:
        lost = dialect.is_disconnect(error, driver, None)
        if lost:
            connection.invalidate(error)
        raise DBAPIError.instance(
            statement, None, error, errors.Error, connection_invalidated=lost, dialect=dialect
        ) from error
