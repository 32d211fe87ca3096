"""Traces and other tables of results folders, read from their files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
from polars.exceptions import PanicException, PolarsError

from scheduler import UserError
from scheduler.messages import printable
from sil.trace.facts import METADATA_KEY, RUN, SCHEMA, TRACE, Fact, RunDescription
from sil.trace.held import request_of
from sil.trace.log_clock import LogClock
from sil.trace.log_ids import LOG_ID
from sil.trace.stream import Schema
from site_db.files.access import Memory, regular

_OF_RUNS = (
    *(Fact.RUN_STARTED, Fact.RUN_ENDED, Fact.RUN_PREEMPTED, Fact.RUN_LOST, Fact.ORDER_OVERTAKEN),
    *(Fact.ORDER_REFUSED, Fact.RUN_ABANDONED, Fact.RUN_DISCARDED),
)
_OF_NODES = (
    *(Fact.LOCAL_USER_CAME, Fact.LOCAL_USER_GONE, Fact.READING_REFUSED, Fact.MONITOR_SILENT),
    *(Fact.MACHINE_DOWN, Fact.MACHINE_UP),
)
_STOPS = (Fact.RUN_STOPPED, Fact.RUN_CONTINUED)
_SAYS_WHY = (Fact.JOB_REFUSED, Fact.JOB_DESCRIBED, Fact.PASSED_OVER, Fact.JOB_MAPPED)
_NEEDED: dict[str, tuple[Fact, ...]] = {
    "job": (Fact.JOB_ARRIVED, *_SAYS_WHY, *_OF_RUNS, *_STOPS, Fact.PROMISED),
    "run": (*_OF_RUNS, *_STOPS),
    "resource": (*_OF_RUNS, *_OF_NODES, Fact.JOB_MAPPED),
    "machines": (Fact.RUN_STARTED, *_STOPS),
    **dict.fromkeys(("job_class", "queue", "user"), (Fact.JOB_ARRIVED,)),
    "tasks": (Fact.JOB_ARRIVED, Fact.RUN_STARTED),
    "expected_s": (Fact.JOB_MAPPED, Fact.DECISION_CHARGED, Fact.RUN_STARTED, Fact.PROMISED),
    "detail": (
        *(*_SAYS_WHY, Fact.READING_REFUSED, Fact.INTERCONNECT_DOWN, Fact.INTERCONNECT_UP, Fact.FAULT),
        Fact.ORDER_REFUSED,
    ),
    "message": (Fact.FAULT,),
}
"""The kinds of facts in which a column is not null."""

_OF_ALL = (*RUN, "time_s", "event")

Check = tuple[str, pl.Expr]
"""What wrong facts have, and which facts are wrong."""


def _checks() -> Iterator[Check]:
    for column in _OF_ALL:
        # When a process ended without a word, the time is not known.
        may_lack = pl.col("event") == Fact.FAULT if column == "time_s" else pl.lit(value=False)
        yield f"no {column}", pl.col(column).is_null() & ~may_lack
    for column, facts in _NEEDED.items():
        for fact in facts:
            yield f"no {column}, which each {fact} has", (pl.col("event") == fact) & pl.col(column).is_null()
    yield "a time that is not finite", ~pl.col("time_s").is_finite()
    field = pl.element().struct.field
    is_wrong = {"machines": field("first") > field("last"), "shares": field("chunks") < 1}
    for name, wrong in is_wrong.items():
        wrong |= pl.any_horizontal(field("*").fill_null(-1) < 0)
        yield f"{name} that cannot be read", pl.col(name).list.eval(wrong).list.any()


def mistake_in(facts: pl.DataFrame) -> str | None:
    """What the first fact lacks that is not as those of its kind, as a clause; None if there is none."""
    checks = [*_checks(), _unreadable_requests(facts)]
    are_wrong = facts.select(wrong.any().alias(what) for what, wrong in checks).row(0, named=True)
    firsts = [(_first(facts, wrong), what) for what, wrong in checks if are_wrong[what]]
    if not firsts:
        return None
    number, what = min(firsts)
    return f"fact {number + 1} has {what}"


def mistake_in_runs(facts: pl.DataFrame, description: RunDescription) -> str | None:
    """Which run is missing, or is none of the experiment's, as a clause; None if all are there.

    A scheduler with a fault need not have all of them.
    """
    n_points, n_replications = len(description.points), description.replications
    runs = set(facts.select(RUN).unique().iter_rows())
    faulted = set(facts.filter(pl.col("event") == Fact.FAULT)["scheduler"])
    for point, replication, scheduler in sorted(runs):
        known = 0 <= point < n_points and 0 <= replication < n_replications
        if not known or scheduler not in description.schedulers:
            where = f"at point {point} in replication {replication}"
            return f"it has a run of '{scheduler}' {where}, which the experiment has not"
    for scheduler in description.schedulers:
        n = sum(run[2] == scheduler for run in runs)
        if n != n_points * n_replications and scheduler not in faulted:
            return f"it has {n} runs of '{scheduler}' instead of {n_points * n_replications}"
    return None


def _first(facts: pl.DataFrame, are_wrong: pl.Expr) -> int:
    return int(facts.select(are_wrong.fill_null(False).arg_max()).item())


def _unreadable_requests(facts: pl.DataFrame) -> Check:
    given = (pl.col("event") == Fact.JOB_ARRIVED) & pl.col("detail").is_not_null()
    bad = []
    for text in facts.filter(given)["detail"].unique():
        try:
            request_of(text)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            bad.append(text)
    return f"a detail that no {Fact.JOB_ARRIVED} has", given & pl.col("detail").is_in(bad)


class NoTrace(UserError):
    """A trace that cannot be read. The message is one sentence for the user."""


def trace_file(path: Path) -> Path:
    """The trace at `path`: the file itself, or trace.parquet in a folder. Raises NoTrace."""
    if not path.is_dir() or (path / TRACE).is_file():
        return path / TRACE if path.is_dir() else path
    folders = sorted(found.parent.name for found in path.glob(f"*/{TRACE}"))
    if folders:
        raise NoTrace(
            f"{path}: each scheduler has its own trace; name one of the subfolders {', '.join(folders)}"
        )
    raise NoTrace(
        f"{path}: there is no {TRACE} in this folder; `sil run` writes it into the folder --out, "
        f"`sil replay` into a folder for each scheduler"
    )


DAMAGED = (OSError, UnicodeDecodeError, PolarsError, PanicException)
"""What reading a damaged Parquet file raises."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Within this context, a file that is missing or cannot be read raises NoTrace."""
    try:
        regular(path)
        yield
    except FileNotFoundError:
        raise NoTrace(f"{path}: there is no such file; `sil run` and `sil replay` write traces") from None
    except DAMAGED as error:
        raise NoTrace(f"{path}: this is not a trace written by `sil` ({type(error).__name__})") from None


BYTES_OF_A_VALUE = 8


def read_table(path: Path, schema: Schema, optional: Schema = MappingProxyType({})) -> pl.DataFrame:
    """A Parquet file of a results folder. Raises NoTrace unless its columns are those of `schema`, and maybe
    of `optional`, and InvalidFile for more values than there may be memory for: a small file can have many,
    since equal ones are stored once."""
    with reading(path):
        lazy = pl.scan_parquet(path, glob=False)
        n_rows = lazy.select(pl.len()).collect().item()
        Memory(path).take(BYTES_OF_A_VALUE * n_rows * len(lazy.collect_schema()))
        table = lazy.collect()
    there = {name: kind for name, kind in optional.items() if name in table.columns}
    if (differs := difference(table, {**schema, **there})) is not None:
        raise NoTrace(
            f"{path}: {differs}; this file was written by another version of `sil`, or changed since: repeat "
            "the run"
        )
    return table


def difference(table: pl.DataFrame, schema: Schema) -> str | None:
    """The first column that is not as in `schema`, as a clause."""
    there = table.schema
    for name in (*schema, *there):
        found, expected = there.get(name), schema.get(name)
        if expected is None:
            return f"the column {printable(name)} is unknown"
        if found is None:
            return f"the column {name} is missing"
        if found != expected:
            return f"the column {name} has another type"
    return None if [*there] == [*schema] else "the columns are in another order"


def _description(path: Path) -> dict[str, Any]:
    """What is in the metadata of a trace. Raises NoTrace."""
    with reading(path):
        metadata = pl.read_parquet_metadata(path)
    try:
        found = json.loads(metadata[METADATA_KEY])
    except (KeyError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise NoTrace(f"{path}: this is not a trace written by `sil`")
    return found


def read_facts(path: Path) -> pl.DataFrame:
    """The facts of a trace, each with what facts of its kind have. Raises NoTrace."""
    _description(path)
    facts = read_table(path, SCHEMA, {LOG_ID: pl.String})
    _refuse(path, mistake_in(facts))
    return facts


def _refuse(path: Path, mistake: str | None) -> None:
    if mistake is not None:
        raise NoTrace(f"{path}: the trace is damaged: {mistake}; repeat the run")


def read_resource_names(path: Path) -> tuple[str, ...]:
    """The names of the resources of a trace, by index; empty if it has none. Raises NoTrace."""
    description = _description(path)
    names = [description.get(key, []) for key in ("machines", "clusters")]
    return tuple(str(name) for some in names if isinstance(some, list) for name in some)


def read_node_cores(path: Path) -> list[int]:
    """The CPUs of each node of a trace; empty if it has none. Raises NoTrace."""
    return [int(n) for n in _description(path).get("node_cores", [])]


def read_clock(path: Path, facts: pl.DataFrame) -> LogClock:
    """The clock of a run in a trace, of which these are facts. Raises NoTrace."""
    arrivals = facts.filter(pl.col("event") == Fact.JOB_ARRIVED)["time_s"]
    return LogClock.described(_description(path), float(arrivals.min() or 0.0))  # type: ignore[arg-type]


def read_trace(path: Path) -> tuple[pl.DataFrame, RunDescription]:
    """The facts and the description. Raises NoTrace unless it is a trace of `sil run`, with all runs."""
    facts = read_facts(path)
    as_tuples: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in _description(path).items()
    }
    try:
        description = RunDescription(**as_tuples)
    except TypeError:
        raise NoTrace(f"{path}: this is not a trace written by `sil run`") from None
    _refuse(path, mistake_in_runs(facts, description))
    return facts, description
