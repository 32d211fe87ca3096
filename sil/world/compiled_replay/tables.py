"""Chunks of the compiled loop's facts as tables of a trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from scheduler.model import ON_NODES
from sil.trace.facts import EVENTS, FACT_SCHEMA, MEASURED_SCHEMA, Fact
from sil.world.compiled_replay.facts import ARRIVED, N_DECISIONS, N_FACTS, STARTED, Facts

_EVENTS = pl.Series([Fact.JOB_ARRIVED, Fact.RUN_STARTED, Fact.RUN_ENDED], dtype=EVENTS)
"""By code: ARRIVED, STARTED, ENDED."""


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
    arrived = event == ARRIVED
    noted = pl.DataFrame(
        {
            "time_s": facts.time_s[:n],
            "event": _EVENTS.gather(pl.Series(event)),
            "job": names.job[job],
            "run": facts.run[:n],
            "machines": _texts(facts, n, event == STARTED),
            "user": names.user.gather(
                pl.select(pl.when(pl.Series(arrived)).then(pl.Series(job))).to_series()
            ),
            "tasks": names.size[job],
            "expected_s": facts.expected_s[:n],
            "arrived": arrived,
        }
    )
    has_run = ~pl.col("arrived")
    columns = {
        "run": pl.when(has_run).then("run"),
        "resource": pl.when(has_run).then(ON_NODES),
        "job_class": pl.when("arrived").then(pl.lit(names.job_class)),
        "queue": pl.when("arrived").then(pl.lit(names.queue)),
        "tasks": pl.when(pl.col("event") != Fact.RUN_ENDED).then("tasks"),
        "expected_s": pl.when(pl.col("event") == Fact.RUN_STARTED).then("expected_s"),
    }
    missing = dict.fromkeys(FACT_SCHEMA.keys() - noted.columns - columns.keys(), pl.lit(None))
    return noted.select(
        (columns | missing).get(name, pl.col(name)).cast(kind).alias(name)
        for name, kind in FACT_SCHEMA.items()
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


def _texts(facts: Facts, n: int, started: NDArray[np.bool_]) -> pl.Series:
    """The nodes of each run that starts."""
    offsets = pa.py_buffer(facts.text_end[: n + 1])
    valid = pa.py_buffer(np.packbits(started, bitorder="little"))
    texts = pa.LargeStringArray.from_buffers(n, offsets, pa.py_buffer(facts.text), valid)
    found = pl.from_arrow(texts)
    assert isinstance(found, pl.Series)
    return found
