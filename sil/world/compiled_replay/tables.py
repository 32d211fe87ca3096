"""Chunks of the compiled loop's facts as tables of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from scheduler.model import ON_NODES
from sil.trace.facts import EVENTS, FACT_SCHEMA, MEASURED_SCHEMA, Fact
from sil.workload.job_log import user_names
from sil.world.compiled_replay.facts import ARRIVED, N_DECISIONS, N_FACTS, REFUSED, STARTED, Facts

_EVENTS = pl.Series([Fact.JOB_ARRIVED, Fact.RUN_STARTED, Fact.RUN_ENDED, Fact.JOB_REFUSED], dtype=EVENTS)
"""By code: ARRIVED, STARTED, ENDED, REFUSED."""


_USE = ("machines", "detail", "tasks")
"""What is in the text of a job that starts on nodes of which jobs use parts, separated by tabs."""


@dataclass(frozen=True)
class JobNames:
    """Of each job in order of arrival: its number, the number of its user, of whom some have names, how many
    tasks; further columns of the fact that it arrives, each with one text for all or one for each; and why
    jobs in some places are refused."""

    job: NDArray[np.int64]
    user: pl.Series
    users: Mapping[int, str]
    size: NDArray[np.int64]
    on_arrival: Mapping[str, str | pl.Series]
    refusals: Mapping[int, str] = field(default_factory=dict)


def facts_table(facts: Facts, names: JobNames) -> pl.DataFrame:
    """The facts of a chunk, with the columns of FACT_SCHEMA."""
    n = int(facts.counts[N_FACTS])
    event, job = facts.event[:n], facts.job[:n]
    arrived, started = event == ARRIVED, event == STARTED
    job_that_arrives = pl.select(pl.when(pl.Series(arrived)).then(pl.Series(job))).to_series()
    user = names.user.gather(job_that_arrives)
    of_user = user_names(user, names.users)
    noted = pl.DataFrame(
        {
            "time_s": facts.time_s[:n],
            "event": _EVENTS.gather(pl.Series(event)),
            "job": names.job[job],
            "run": facts.run[:n],
            "machines": _texts(facts, n, started),
            "user": user.replace_strict(of_user, default=None, return_dtype=pl.String),
            "tasks": names.size[job],
            "expected_s": facts.expected_s[:n],
            "arrived": arrived,
            "started": started,
        }
    )
    has_run = pl.col("started") | (pl.col("event") == Fact.RUN_ENDED)
    columns: dict[str, pl.Expr] = {
        "run": pl.when(has_run).then("run"),
        "resource": pl.when(has_run).then(ON_NODES),
        "tasks": pl.when(pl.col("arrived") | pl.col("started")).then("tasks"),
        "expected_s": pl.when("started").then("expected_s"),
    }
    for name, values in names.on_arrival.items():
        if isinstance(values, str):
            columns[name] = pl.when("arrived").then(pl.lit(values))
        else:
            columns[name] = pl.lit(values.gather(job_that_arrives))
    if "detail" in columns:  # their requests
        use = pl.col("machines").str.split_exact("\t", len(_USE) - 1).struct.rename_fields(_USE).struct
        whole_cores = use.field("tasks").cast(pl.Int64, strict=False)
        columns["machines"] = use.field("machines")
        columns["detail"] = pl.coalesce(columns["detail"], use.field("detail"))
        columns["tasks"] = pl.coalesce(whole_cores, columns["tasks"])
    if names.refusals:
        refused = pl.when(pl.Series(event == REFUSED)).then(pl.Series(job))
        why = refused.replace_strict(names.refusals, default=None, return_dtype=pl.String)
        columns["detail"] = pl.coalesce(columns.get("detail", pl.lit(None, pl.String)), why)
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
