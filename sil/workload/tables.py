"""Logs from tables: data frames of Polars or pandas, Arrow's tables, columns by name, and Alibaba's
GPU cluster of 2023: CSV files of nodes and of pods (clusterdata, gpu-v2023).

<https://github.com/alibaba/clusterdata>
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, inf
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scheduler.messages import UserError, counted
from scheduler.node_request import MAX_GPUS, Gpus, Node, Request
from sil.workload.job_log import DUE_IN_S, LARGEST, MIN_S, SCHEMA, JobLog, log_on_nodes, possible_size
from site_db.files.access import open_lines
from site_db.files.formats import whole
from site_db.files.input_errors import MAX_VALUE, InvalidFile, quoted
from site_db.site_file.cluster import SiteNodes

REQUIRED = ("submit_s", "run_s", "processors")


def log_from_table(table: Any, processors: int, name: str) -> JobLog:
    """The log in columns of SCHEMA, of which those in REQUIRED have to be there, and DUE_IN_S, if jobs have
    deadlines; others are left out, with a note.

    Jobs are numbered from 1, estimates are exact and users unknown unless there are columns for them. Raises
    UserError with the row, counted from 0, of a value that no job can have."""
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
    due_in_s = [pl.col(DUE_IN_S).fill_null(inf)] if DUE_IN_S in given.columns else []
    jobs = _numbers(
        given.select(
            _or(given, "job", pl.int_range(1, pl.len() + 1)),
            *REQUIRED,
            _or(given, "estimate_s", pl.col("run_s")),
            _or(given, "user", pl.lit(-1)).fill_null(-1),
            *due_in_s,
        ),
        name,
    )
    _check(jobs, processors, name)
    notes = []
    if left_out := [column for column in given.columns if column not in (*SCHEMA, DUE_IN_S)]:
        notes.append(f"columns left out: {', '.join(left_out)}; expected {', '.join(SCHEMA)}")
    if n := int((jobs["run_s"] < MIN_S).sum()):
        notes.append(f"{counted(n, 'run')} of less than {MIN_S:g} s; raised to {MIN_S:g} s")
    raised = pl.col("run_s", "estimate_s").clip(lower_bound=MIN_S)
    table = jobs.with_columns(raised).sort("submit_s", "job")
    return JobLog(name, table.select(*SCHEMA, *due_in_s), processors, notes=tuple(notes), users=users)


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
    """The names of columns: `column_names` of Arrow, `columns` of all others."""
    return getattr(table, "column_names", None) or table.columns


def _or(given: pl.DataFrame, column: str, otherwise: pl.Expr) -> pl.Expr:
    return (pl.col(column) if column in given.columns else otherwise).alias(column)


def _numbers(jobs: pl.DataFrame, name: str) -> pl.DataFrame:
    for values in jobs:
        column, kind = values.name, SCHEMA.get(values.name, pl.Float64)
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
        **{
            name: (~(jobs[name] > 0), "seconds above 0, or none") for name in jobs.columns if name == DUE_IN_S
        },
        "processors": (~jobs["processors"].is_between(1, processors), f"1 to {processors:,} processors"),
    }
    for column, (wrong, expected) in rules.items():
        if wrong.any():
            row = int(wrong.arg_true()[0])
            raise UserError(f"{name}: row {row}: {column} is {jobs[column][row]:,}; expected {expected}")


MILLI = 1000
_SIZES = "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"
_TIMES = "creation_time", "scheduled_time", "deletion_time"


@dataclass(frozen=True, slots=True)
class Pod:
    """A job of one task. `gpu_spec` is the file's text: the models that will do, like `A10|T4`, or any."""

    name: str
    request: Request
    gpu_spec: str

    @property
    def gpu_milli(self) -> int:
        """The GPUs that it requests, in thousandths."""
        gpus = self.request.gpus
        return 0 if gpus is None else gpus.count * round(MILLI * gpus.share)


def read_nodes(path: Path) -> dict[str, Node]:
    """The nodes by name. Raises InvalidFile with file and line."""
    nodes = {}
    for row in read_rows(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model")):
        n_gpus = row.number("gpu")
        if n_gpus > MAX_GPUS:
            raise row.mistake(f"gpu is {n_gpus:,}; expected at most {MAX_GPUS}")
        gpus = (row["model"],) * n_gpus
        nodes[row["sn"]] = Node(row.number("cpu_milli") / MILLI, row.number("memory_mib"), gpus)
    return nodes


def read_pods(path: Path) -> dict[str, Pod]:
    """The pods by name, in order of the file. Raises InvalidFile with file and line."""
    pods = {}
    for row in read_rows(path, ("name", *_SIZES)):
        pods[row["name"]] = Pod(row["name"], _request(row), row.get("gpu_spec", ""))
    return pods


def read_pod_log(path: Path, cluster: SiteNodes) -> JobLog:
    """The pods as jobs that arrive when they were created and run as long as they did, known in advance.

    Pods that were never scheduled or have not ended are left out, with a note. Raises InvalidFile.
    """
    jobs, names, requests, left_out = [], list[str](), list[Request](), 0
    places: dict[object, int] = {}
    for number, row in enumerate(read_rows(path, ("name", *_SIZES, *_TIMES)), start=1):
        has_ended = row.get("scheduled_time") and row.get("deletion_time")
        created_s, scheduled_s, deleted_s = map(row.number, _TIMES) if has_ended else (0, 0, 0)
        if (run_s := float(deleted_s - scheduled_s)) <= 0:
            left_out += 1
            continue
        request = _request(row)
        place = places.setdefault((request.cores, request.memory_mib, request.gpus), len(requests))
        if place == len(requests):
            requests.append(request)
        names.append(row["name"])
        jobs.append((number, float(created_s), run_s, max(1, ceil(request.cores)), run_s, -1, place))
    if not jobs:
        raise InvalidFile(f"{path}: no pod was scheduled and deleted")
    notes = (f"{left_out:,} pods were never scheduled or have not ended; left out",) if left_out else ()
    return log_on_nodes(path.name, jobs, cluster, requests, names, notes=notes)


def _request(row: Row) -> Request:
    cores, memory_mib, gpus = row.number("cpu_milli") / MILLI, row.number("memory_mib"), _gpus(row)
    try:
        return Request(cores=cores, memory_mib=memory_mib, gpus=gpus)
    except ValueError as error:
        raise row.mistake(str(error)) from None


def _gpus(row: Row) -> Gpus | None:
    count, milli = row.number("num_gpu"), row.number("gpu_milli")
    if count == 0:
        return None
    if not 0 < milli <= MILLI or (count > 1 and milli < MILLI):
        expected = "1 to 1000 of one GPU, or 1000 of each of several"
        raise row.mistake(f"gpu_milli is {milli} for {counted(count, 'GPU')}; expected {expected}")
    return Gpus(count, milli / MILLI, frozenset(filter(None, row.get("gpu_spec", "").split("|"))))


class Row(dict[str, str]):
    """A row of a CSV file with a header."""

    def __init__(self, values: Mapping[str, str], where: str) -> None:
        super().__init__(values)
        self._where = where

    def number(self, column: str) -> int:
        """A whole number of at least 0. Raises InvalidFile."""
        number = whole(self[column])
        if number is None or number >= MAX_VALUE:
            raise self.mistake(f"{column} is {quoted(self[column])}; expected a whole number, 0 or greater")
        return number

    def mistake(self, sentence: str) -> InvalidFile:
        return InvalidFile(f"{self._where}: {sentence}")


def read_rows(path: Path, required: Iterable[str]) -> Iterator[Row]:
    """The rows of a CSV file, which may be compressed. Raises InvalidFile with file and line."""
    with open_lines(path) as lines:
        reader = csv.DictReader(lines, restval="")
        try:
            missing = [name for name in required if name not in (reader.fieldnames or ())]
            if missing:
                raise InvalidFile(
                    f"{path}, line 1: there is no column '{missing[0]}'; expected {', '.join(required)}"
                )
            for values in reader:
                yield Row(values, f"{path}, line {reader.line_num}")
        except csv.Error as error:
            raise InvalidFile(f"{path}, line {reader.line_num + 1}: this is not valid CSV: {error}") from None
