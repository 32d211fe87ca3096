"""Chunks of the compiled loop's facts as tables of a trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from scheduler.model import ON_NODES
from sil.trace.facts import EVENTS, FACT_SCHEMA, MEASURED_SCHEMA, Fact
from sil.world.compiled_replay.facts import ARRIVED, ENDED, N_DECISIONS, N_FACTS, STARTED, Facts

_EVENTS = {ARRIVED: Fact.JOB_ARRIVED, STARTED: Fact.RUN_STARTED, ENDED: Fact.RUN_ENDED}


@dataclass(frozen=True)
class JobNames:
    """Of each job in order of arrival: its number, its user, how many nodes; and what all have in common."""

    job: NDArray[np.int64]
    user: pl.Series
    size: NDArray[np.int64]
    job_class: str
    queue: str


def facts_table(facts: Facts, names: JobNames) -> pl.DataFrame:
    """The facts of a chunk, with the columns of FACT_SCHEMA."""
    n = int(facts.counts[N_FACTS])
    event, job = facts.event[:n], facts.job[:n]
    arrived, started = event == ARRIVED, event == STARTED
    columns = {
        "time_s": pl.Series(facts.time_s[:n]),
        "event": pl.Series(event).replace_strict(_EVENTS, return_dtype=EVENTS),
        "job": pl.Series(names.job[job]),
        "run": _where(~arrived, pl.Series(facts.run[:n])),
        "resource": _where(~arrived, pl.repeat(ON_NODES, n, eager=True)),
        "machines": _texts(facts, n, started),
        "job_class": _where(arrived, pl.repeat(names.job_class, n, eager=True)),
        "queue": _where(arrived, pl.repeat(names.queue, n, eager=True)),
        "user": _where(arrived, names.user.gather(job)),
        "tasks": _where(event != ENDED, pl.Series(names.size[job])),
        "expected_s": _where(started, pl.Series(facts.expected_s[:n])),
    }
    missing = [pl.lit(None).alias(name) for name in FACT_SCHEMA.keys() - columns.keys()]
    return (
        pl.DataFrame(columns)
        .with_columns(missing)
        .select(pl.col(name).cast(kind) for name, kind in FACT_SCHEMA.items())
    )


def decisions_table(facts: Facts, n_nodes: int, wall_s: float) -> pl.DataFrame:
    """The decisions of a chunk, with the columns of MEASURED_SCHEMA: each took the mean of `wall_s`."""
    n = int(facts.counts[N_DECISIONS])
    return pl.DataFrame(
        {
            "time_s": facts.asked_s[:n],
            "n_jobs": facts.n_waiting[:n],
            "n_resources": np.full(n, n_nodes),
            "n_decisions": facts.n_started[:n],
            "wall_s": np.full(n, wall_s / max(n, 1)),
            "cpu_s": pl.repeat(None, n, dtype=pl.Float64, eager=True),
            "gc_s": np.zeros(n),
        },
        schema=MEASURED_SCHEMA,
    )


def _where(mask: NDArray[np.bool_], values: pl.Series) -> pl.Series:
    """Null elsewhere."""
    return pl.select(pl.when(pl.Series(mask)).then(values)).to_series()


def _texts(facts: Facts, n: int, started: NDArray[np.bool_]) -> pl.Series:
    """The nodes of each run that starts."""
    offsets = pa.py_buffer(facts.text_end[: n + 1])
    valid = pa.py_buffer(np.packbits(started, bitorder="little"))
    texts = pa.LargeStringArray.from_buffers(n, offsets, pa.py_buffer(facts.text), valid)
    found = pl.from_arrow(texts)
    assert isinstance(found, pl.Series)
    return found
