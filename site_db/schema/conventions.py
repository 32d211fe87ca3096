"""Shared by all tables: the names of constraints, references to owners, and checks that follow from types."""

from __future__ import annotations

from inspect import get_annotations
from typing import Annotated, Any, get_args

from pydantic import Field
from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, MetaData, Table, text
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedColumn, mapped_column

from site_db.files.fields import Amount, Megabytes, Name, Whole, WholeNumber
from site_db.files.toml_file import NotNegative, Positive

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
Share = Annotated[float, Field(gt=0, le=1)]
_POSITIVE = ("positive", "{0} > 0 AND {0} < 1e15")
_NOT_NEGATIVE = ("not_negative", "{0} >= 0 AND {0} < 1e15")
"""As in files (`files.input_errors.MOST`); infinity is greater, and PostgreSQL's NaN too."""
CHECKS: dict[Any, tuple[str, str]] = {
    **dict.fromkeys((Positive, WholeNumber, Amount), _POSITIVE),
    **dict.fromkeys((NotNegative, Whole, Megabytes), _NOT_NEGATIVE),
    Share: ("is_a_share", "{0} > 0 AND {0} <= 1"),
    Name: ("not_empty", "{0} <> ''"),
}
"""By the type of a column: the end of the constraint's name, and its condition."""
ON_POSTGRESQL = "postgresql"
"""The key of what only PostgreSQL has, in the `info` of a table or an index."""


class Base(DeclarativeBase):
    """Columns of the types of site files have the checks of these types."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = dict.fromkeys((Amount, Megabytes), BigInteger)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for owner in cls.__mro__[: cls.__mro__.index(Base)]:
            for column, mapped in get_annotations(owner, eval_str=True).items():
                for kind in get_args(mapped)[:1]:
                    found = next((CHECKS[of] for of in (kind, *get_args(kind)) if of in CHECKS), None)
                    if found is not None:
                        check = CheckConstraint(found[1].format(column), name=f"{column}_{found[0]}")
                        cls.__table__.append_constraint(check)  # type: ignore[attr-defined]


def part_of(table: str, **options: Any) -> MappedColumn[Any]:
    """The id of a row of `table`, with which this row is deleted."""
    return mapped_column(ForeignKey(f"{table}.id", ondelete="CASCADE"), **options)


def related(table: str, **columns: Any) -> Any:
    """The class of rows that relate rows of tables, which are given by the columns with their ids, to one
    another, to names, and to amounts, which are given by their types."""
    made: dict[str, Any] = {"__tablename__": table, "__annotations__": {}}
    for column, of in columns.items():
        if isinstance(of, str):
            made[column] = part_of(of, primary_key=True)
        else:
            made["__annotations__"][column] = Mapped[of]  # type: ignore[valid-type]
            made[column] = mapped_column(primary_key=of is Name)
    return type(table, (Base,), made)


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
        made: list[Table | Index] = [table, *table.indexes]
        for each in made:
            each.dialect_options["postgresql"].update(each.info.get(ON_POSTGRESQL, {}))
