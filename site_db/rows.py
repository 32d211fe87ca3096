"""Rows of the database: ids by name, the lock of a site, and bulk changes without the ORM's unit of work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    if not rows:
        return
    connection, name, columns, marks = _statement_parts(session, table, rows[0])
    values = [tuple(row.values()) for row in rows]
    if connection.dialect.name == "postgresql":
        _copy(connection, f"COPY {name} ({columns}) FROM STDIN", values)
    else:
        connection.exec_driver_sql(f"INSERT INTO {name} ({columns}) VALUES ({marks})", values)


def update_rows(session: Session, table: type[Base], ids: Sequence[int], rows: Rows) -> None:
    """Write new values into the rows with these ids. Raises DBAPIError."""
    if not rows:
        return
    connection, name, columns, marks = _statement_parts(session, table, rows[0])
    values = [(*row.values(), id) for id, row in zip(ids, rows, strict=True)]
    where = f"id = {marks.partition(',')[0]}"
    updated = connection.exec_driver_sql(f"UPDATE {name} SET ({columns}) = ({marks}) WHERE {where}", values)
    if updated.rowcount != len(rows):
        raise RuntimeError(f"{len(rows)} rows of {table.__tablename__} were to be updated, but not all exist")


def add_to_rows(session: Session, table: type[Base], rows: Rows) -> None:
    """Add numbers to the rows with these primary keys; a missing row is inserted.

    Raises DBAPIError.
    """
    if not rows:
        return
    connection, name, columns, marks = _statement_parts(session, table, rows[0])
    quote = connection.dialect.identifier_preparer.quote
    keys = [column.name for column in table.__table__.primary_key]
    sums = ", ".join(
        f"{quote(column)} = {name}.{quote(column)} + excluded.{quote(column)}"
        for column in rows[0]
        if column not in keys
    )
    connection.exec_driver_sql(
        f"INSERT INTO {name} ({columns}) VALUES ({marks}) "
        f"ON CONFLICT ({', '.join(map(quote, keys))}) DO UPDATE SET {sums}",
        [tuple(row.values()) for row in rows],
    )


def _statement_parts(
    session: Session, table: type[Base], columns: Iterable[str]
) -> tuple[Connection, str, str, str]:
    """The connection; the table, the columns and a placeholder for each of them, as SQL."""
    connection = session.connection()
    quote: Callable[[str], str] = connection.dialect.identifier_preparer.quote
    names = [*map(quote, columns)]
    mark = "%s" if connection.dialect.name == "postgresql" else "?"
    return connection, quote(table.__tablename__), ", ".join(names), ", ".join([mark] * len(names))


def _copy(connection: Connection, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Run COPY, which SQLAlchemy does not support; errors become those that it would raise."""
    driver: Any = connection.connection.driver_connection
    dialect = connection.dialect
    errors: Any = dialect.loaded_dbapi
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
    except errors.Error as error:
        lost = dialect.is_disconnect(error, driver, None)
        if lost:
            connection.invalidate(error)
        raise DBAPIError.instance(
            statement, None, error, errors.Error, connection_invalidated=lost, dialect=dialect
        ) from error
