"""Bulk inserts and updates of plain tuples, without the ORM's unit of work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from site_db.schema import Base


def insert_rows(
    session: Session, table: type[Base], columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Insert rows, each a tuple in the order of `columns`. Raises DBAPIError."""
    if not rows:
        return
    connection = session.connection()
    quote = connection.dialect.identifier_preparer.quote
    into = f"{quote(table.__tablename__)} ({', '.join(map(quote, columns))})"
    if _is_postgresql(connection):
        _copy(connection, f"COPY {into} FROM STDIN", rows)
    else:
        marks = ", ".join("?" for _ in columns)
        connection.exec_driver_sql(f"INSERT INTO {into} VALUES ({marks})", list(rows))


def update_rows(
    session: Session, table: type[Base], columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Update rows: each tuple has the new values in the order of `columns`, then the row's id.

    Raises DBAPIError.
    """
    if not rows:
        return
    connection = session.connection()
    quote = connection.dialect.identifier_preparer.quote
    mark = "%s" if _is_postgresql(connection) else "?"
    values = ", ".join(f"{quote(column)} = {mark}" for column in columns)
    updated = connection.exec_driver_sql(
        f"UPDATE {quote(table.__tablename__)} SET {values} WHERE id = {mark}", list(rows)
    )
    if updated.rowcount != len(rows):
        raise RuntimeError(f"{len(rows)} rows of {table.__tablename__} were to be updated, but not all exist")


def add_up_rows(
    session: Session,
    table: type[Base],
    key: Sequence[str],
    sums: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
) -> None:
    """Add numbers to columns of the rows with these primary keys; a missing row is inserted with them.

    Each tuple has the values of `key`, then the numbers for `sums`. Raises DBAPIError.
    """
    if not rows:
        return
    connection = session.connection()
    quote = connection.dialect.identifier_preparer.quote
    name, mark = quote(table.__tablename__), "%s" if _is_postgresql(connection) else "?"
    columns, marks = ", ".join(map(quote, (*key, *sums))), ", ".join([mark] * (len(key) + len(sums)))
    added = ", ".join(f"{quote(one)} = {name}.{quote(one)} + excluded.{quote(one)}" for one in sums)
    connection.exec_driver_sql(
        f"INSERT INTO {name} ({columns}) VALUES ({marks}) "
        f"ON CONFLICT ({', '.join(map(quote, key))}) DO UPDATE SET {added}",
        list(rows),
    )


def _is_postgresql(connection: Connection) -> bool:
    return connection.dialect.name == "postgresql"


def _copy(connection: Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
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
