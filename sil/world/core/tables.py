"""Chunks of the compiled loop's facts as tables of a trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from scheduler.model import ON_NODES
from sil.trace.facts import CODES, EVENTS, MEASURED_SCHEMA, SCHEMA, Fact
from sil.trace.held import arrow_column, machines_of
from sil.trace.stream import COMPATIBLE, arrow_schema
from sil.workload.job_log import user_names
from sil.world.core.codes import ARRIVED, CHANGED, ENDED, REFUSED, STARTED
from sil.world.core.facts import Facts

_SCHEMA = arrow_schema(SCHEMA)
_EVENTS = pa.array(EVENTS.categories.to_list(), pa.large_string())
_FACTS = (
    *(Fact.JOB_ARRIVED, Fact.RUN_STARTED, Fact.RUN_ENDED, Fact.JOB_REFUSED),
    *(Fact.JOB_INELIGIBLE, Fact.JOB_ELIGIBLE),
)
_CODE_OF = np.array([*(CODES[fact] for fact in _FACTS), 0], np.uint8)
"""The code of a fact in a trace, by its code in the loop, of which the last is CHANGED."""


@dataclass(frozen=True)
class JobNames:
    """Of each job in order of arrival: its number, the number of its user, of whom some have names, how many
    tasks; further columns of the fact that it arrives, each with one text for all or one for each; and why
    jobs in some places are refused. Of changes of nodes, the facts and their details."""

    job: NDArray[np.int64]
    user: NDArray[np.int64]
    users: Mapping[int, str]
    size: NDArray[np.int64]
    on_arrival: Mapping[str, str | pl.Series]
    refusals: Mapping[int, str] = field(default_factory=dict)
    changes: Sequence[tuple[Fact, str]] = ()


def facts_table(
    facts: Facts, names: JobNames, run: tuple[int, int, str], wanted: Sequence[str] = (*SCHEMA,)
) -> pa.Table:
    """The facts of a chunk as those of a run, with some columns of a trace."""
    n = facts.n
    event, job = np.asarray(facts.event)[:n], np.asarray(facts.job)[:n]
    arrived, started = event == ARRIVED, event == STARTED
    has_run = started | (event == ENDED)
    held_end, whole_cores = np.asarray(facts.held_end)[: n + 1], np.asarray(facts.whole_cores)[:n]
    held = np.asarray(facts.held)[: held_end[-1]]
    n_tasks = np.where(whole_cores > 0, whole_cores, names.size[job])
    codes, of_nodes, details = _CODE_OF[event], started, dict(facts.texts)
    if names.changes and (at := np.flatnonzero(event == CHANGED)).size:
        of_nodes, changes = started | (event == CHANGED), np.asarray(facts.run)[at].tolist()
        codes[at] = [CODES[names.changes[x][0]] for x in changes]
        details |= {int(place): names.changes[x][1] for place, x in zip(at, changes, strict=True)}
    point, replication, scheduler = run
    columns: dict[str, Callable[[], pa.Array]] = {
        "point": lambda: pa.array(np.full(n, point, np.int32)),
        "replication": lambda: pa.array(np.full(n, replication, np.int32)),
        "scheduler": lambda: _repeated(scheduler, n),
        "time_s": lambda: pa.array(np.asarray(facts.time_s)[:n]),
        "event": lambda: pa.DictionaryArray.from_arrays(pa.array(codes), _EVENTS, ordered=True),
        "job": lambda: pa.array(names.job[job], mask=event == CHANGED if details else None),
        "run": lambda: _numbers_where(has_run, np.asarray(facts.run)[:n], pa.int64()),
        "resource": lambda: _numbers_where(has_run, np.full(n, ON_NODES, np.int32), pa.int32()),
        "machines": lambda: arrow_column("machines", held_end, held[:, :2], started),
        "user": lambda: _texts_where(arrived, _names_of_users(names, job[arrived])),
        "tasks": lambda: _numbers_where(arrived | started, n_tasks.astype(np.int32), pa.int32()),
        "expected_s": lambda: _numbers_where(started, np.asarray(facts.expected_s)[:n], pa.float64()),
    }
    if "detail" in names.on_arrival:  # jobs request parts of nodes
        columns["machines"] = lambda: arrow_column("machines", *machines_of(held_end, held[:, 0]), of_nodes)
        columns["shares"] = lambda: arrow_column("shares", held_end, held, started)
    for name, values in names.on_arrival.items():
        columns[name] = partial(_on_arrival, values, arrived, job)
    made = {name: columns[name]() for name in wanted if name in columns}
    if names.refusals:
        places = pl.Series(job).set(pl.Series(event != REFUSED), None)
        why = places.replace_strict(names.refusals, default=None, return_dtype=pl.String)
        detail = made.get("detail", pa.nulls(n, pa.large_string()))
        made["detail"] = _as_arrow(pl.select(pl.coalesce(_as_series(detail), why)).to_series())
    if details:
        places = pl.Series(np.arange(n)).replace_strict(details, default=None, return_dtype=pl.String)
        texts = _as_series(made.get("detail", pa.nulls(n, pa.large_string())))
        made["detail"] = _as_arrow(pl.select(pl.coalesce(places, texts)).to_series())
    fields = [_SCHEMA.field(name) for name in wanted]
    arrays = [made.get(field.name, pa.nulls(n, field.type)) for field in fields]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _on_arrival(values: str | pl.Series, arrived: NDArray[np.bool_], job: NDArray[np.int64]) -> pa.Array:
    """One text for all jobs that arrive, or one for each."""
    if isinstance(values, str):
        return _texts_where(arrived, _repeated(values, int(arrived.sum())))
    return _texts_where(arrived, _as_arrow(values.gather(pl.Series(job[arrived]))))


def _names_of_users(names: JobNames, jobs: NDArray[np.int64]) -> pa.Array:
    users = pa.array(names.user[jobs]).dictionary_encode()
    numbers = users.dictionary.to_pylist()
    known = user_names(numbers, names.users)
    return _decoded(users.indices, [known[number] for number in numbers])


def decisions_table(facts: Facts, n_nodes: int, wall_s: float) -> pl.DataFrame:
    """The decisions of a chunk, with the columns of MEASURED_SCHEMA: each took the mean of `wall_s`."""
    n = facts.n_decisions
    return pl.DataFrame(
        {
            "time_s": np.asarray(facts.asked_s)[:n],
            "n_jobs": np.asarray(facts.n_waiting)[:n],
            "n_resources": np.full(n, n_nodes),
            "n_decisions": np.asarray(facts.n_started)[:n],
            "wall_s": np.full(n, wall_s / max(n, 1)),
            "cpu_s": pl.repeat(None, n, dtype=pl.Float64, eager=True),
            "gc_s": np.zeros(n),
        },
        schema=MEASURED_SCHEMA,
    )


def _numbers_where(where: NDArray[np.bool_], numbers: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Numbers of this kind; null elsewhere."""
    return pa.Array.from_buffers(kind, len(where), [_bits(where), pa.py_buffer(numbers)])


def _texts_where(where: NDArray[np.bool_], texts: pa.Array) -> pa.Array:
    """The texts one after the other in these places; null elsewhere."""
    _, offsets, data = texts.buffers()
    ends = np.zeros(len(where) + 1, np.int64)
    ends[1:][where] = np.diff(np.frombuffer(offsets, np.int64)[: len(texts) + 1])
    return pa.LargeStringArray.from_buffers(len(where), pa.py_buffer(np.cumsum(ends)), data, _bits(where))


def _bits(where: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(where, bitorder="little"))


def _repeated(text: str, n: int) -> pa.Array:
    return _decoded(pa.array(np.zeros(n, np.int8)), [text])


def _decoded(places: pa.Array, texts: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(places, pa.array(texts, pa.large_string())).dictionary_decode()


def _as_arrow(column: pl.Series) -> pa.Array:
    return column.to_arrow(compat_level=COMPATIBLE)


def _as_series(array: pa.Array) -> pl.Series:
    series = pl.from_arrow(array)
    assert isinstance(series, pl.Series)
    return series
