"""Shared by all tables: the names of constraints, references to owners, and common checks."""

from __future__ import annotations

from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, MetaData, Table, text
from sqlalchemy.orm import DeclarativeBase, MappedColumn, mapped_column

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}

MOST = "1e15"
"""As in files (`files.input_errors.MOST`); infinity is greater, and PostgreSQL's NaN too."""


ON_POSTGRESQL = "postgresql"
"""The key of what only PostgreSQL has, in the `info` of a table or an index."""


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)


def part_of(table: str, **options: Any) -> MappedColumn[Any]:
    """The id of a row of `table`, with which this row is deleted."""
    return mapped_column(ForeignKey(f"{table}.id", ondelete="CASCADE"), **options)


def named(column: str = "name") -> CheckConstraint:
    """A name is not empty."""
    return CheckConstraint(f"{column} <> ''", name=f"{column}_not_empty")


def positive(column: str) -> CheckConstraint:
    return CheckConstraint(f"{column} > 0 AND {column} < {MOST}", name=f"{column}_positive")


def not_negative(column: str) -> CheckConstraint:
    return CheckConstraint(f"{column} >= 0 AND {column} < {MOST}", name=f"{column}_not_negative")


def one_of(column: str, *values: str) -> CheckConstraint:
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=f"{column}_known")


def exactly_one(*columns: str) -> CheckConstraint:
    """One of these columns is filled."""
    filled = " + ".join(f"CASE WHEN {column} IS NULL THEN 0 ELSE 1 END" for column in columns)
    return CheckConstraint(f"{filled} = 1", name="one_place")


def members_of_clusters() -> CheckConstraint:
    """Clusters have a number of members, machines have none."""
    return CheckConstraint(
        "(cluster_id IS NULL AND members IS NULL) OR "
        "(cluster_id IS NOT NULL AND members IS NOT NULL AND members > 0)",
        name="members_of_clusters",
    )


def unique_where_filled(table: str, first: str, *place: str) -> Index:
    """One partial index for each kind of place, since NULLs never collide."""
    filled = text(f"{place[0]} IS NOT NULL")
    name = "_".join(("uq", table, first, *place))
    on_postgresql = {ON_POSTGRESQL: {"where": filled}}
    return Index(name, first, *place, unique=True, sqlite_where=filled, info=on_postgresql)


def use_options_of_postgresql() -> None:
    """Give tables and indexes their options for PostgreSQL. To name them in the tables would load its dialect
    and those of its drivers, which databases on SQLite do without."""
    for table in Base.metadata.tables.values():
        things: list[Table | Index] = [table, *table.indexes]
        for thing in things:
            thing.dialect_options["postgresql"].update(thing.info.get(ON_POSTGRESQL, {}))
