"""Logs from tables in memory: data frames of Polars or pandas, Arrow's tables, or columns by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from scheduler import UserError, counted
from sil.workload.job_log import LARGEST, LEAST_S, SCHEMA, JobLog, possible_size

REQUIRED = ("submit_s", "run_s", "processors")


def log_from_table(table: Any, processors: int, name: str) -> JobLog:
    """Columns of SCHEMA, of which those in REQUIRED have to be there; others are left out, with a note.

    Jobs are numbered from 1, estimates are exact and users unknown unless there are columns for them.
    Raises UserError with the row, counted from 0, of a value that no job can have.
    """
    possible_size(processors, name)
    given = _frame(table, name)
    if missing := [column for column in REQUIRED if column not in given.columns]:
        raise UserError(f"{name}: there is no column '{missing[0]}'; expected {', '.join(SCHEMA)}")
    if given.is_empty():
        raise UserError(f"{name}: there is no row; expected one for each job")
    users = dict[int, str]()
    if "user" in given.columns and given["user"].dtype == pl.String:
        names = given["user"].unique(maintain_order=True).drop_nulls()
        users = dict(enumerate(names))
        given = given.with_columns(user=given["user"].replace_strict(names, range(len(names)), default=-1))
    jobs = _numbers(
        given.select(
            _or(given, "job", pl.int_range(1, pl.len() + 1)),
            *REQUIRED,
            _or(given, "estimate_s", pl.col("run_s")),
            _or(given, "user", pl.lit(-1)).fill_null(-1),
        ),
        name,
    )
    _check(jobs, processors, name)
    notes = []
    if left_out := [column for column in given.columns if column not in SCHEMA]:
        notes.append(f"columns left out: {', '.join(left_out)}; expected {', '.join(SCHEMA)}")
    if n := int((jobs["run_s"] < LEAST_S).sum()):
        notes.append(f"{counted(n, 'run')} of less than {LEAST_S:g} s; raised to {LEAST_S:g} s")
    raised = pl.col("run_s", "estimate_s").clip(lower_bound=LEAST_S)
    table = jobs.with_columns(raised).sort("submit_s", "job")
    return JobLog(name, table.select(*SCHEMA), processors, notes=tuple(notes), users=users)


def _frame(table: Any, name: str) -> pl.DataFrame:
    if isinstance(table, pl.DataFrame):
        return table
    try:
        columns = table if isinstance(table, Mapping) else {column: table[column] for column in _names(table)}
        arrays = {str(column): np.asarray(values) for column, values in columns.items()}
        return pl.DataFrame({k: list(v) if v.dtype == object else v for k, v in arrays.items()})
    except (TypeError, ValueError, KeyError, AttributeError, pl.exceptions.PolarsError) as error:
        raise UserError(
            f"{name}: this {type(table).__name__} is no table ({str(error).splitlines()[0]}); expected a "
            "data frame, or columns by name: {'submit_s': [0, 60], 'run_s': [30, 30], 'processors': [1, 2]}"
        ) from None


def _names(table: Any) -> Any:
    """`column_names` of Arrow, `columns` of all others."""
    return getattr(table, "column_names", None) or table.columns


def _or(given: pl.DataFrame, column: str, otherwise: pl.Expr) -> pl.Expr:
    return (pl.col(column) if column in given.columns else otherwise).alias(column)


def _numbers(jobs: pl.DataFrame, name: str) -> pl.DataFrame:
    for column, kind in SCHEMA.items():
        values = jobs[column]
        numbers = values.cast(kind, strict=False) if values.dtype.is_numeric() else values.clear(len(values))
        wrong = numbers.is_null() | (numbers != values if values.dtype.is_numeric() else True)
        if wrong.any():
            row = int(wrong.arg_true()[0])
            expected = "a whole number" if kind == pl.Int64 else "a number"
            raise UserError(f"{name}: row {row}: {column} is {values[row]!r}; expected {expected}")
        jobs = jobs.with_columns(numbers.cast(kind).alias(column))
    return jobs


def _check(jobs: pl.DataFrame, processors: int, name: str) -> None:
    rules = {
        "job": (jobs["job"].is_duplicated() | (jobs["job"] < 0), "a number from 0 on that no other job has"),
        "submit_s": (~jobs["submit_s"].is_between(0, LARGEST), f"seconds from 0 to {LARGEST:g}"),
        "run_s": (~jobs["run_s"].is_between(0, LARGEST), f"seconds from 0 to {LARGEST:g}"),
        "estimate_s": (~jobs["estimate_s"].is_between(0, LARGEST), f"seconds from 0 to {LARGEST:g}"),
        "processors": (~jobs["processors"].is_between(1, processors), f"1 to {processors:,} processors"),
    }
    for column, (wrong, expected) in rules.items():
        if wrong.any():
            row = int(wrong.arg_true()[0])
            raise UserError(f"{name}: row {row}: {column} is {jobs[column][row]:,}; expected {expected}")
