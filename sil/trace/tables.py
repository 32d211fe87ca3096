"""The tables of runs of the harness: facts, timings, predictions, local users."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from sil.trace.facts import RUN_SCHEMA, SCHEMA, TIMINGS_SCHEMA
from sil.trace.stream import Schema

PREDICTIONS_SCHEMA: Schema = {
    **RUN_SCHEMA,
    "made_s": pl.Float64,
    "predictor": pl.String,
    "job": pl.Int64,
    "jobs_there": pl.Int32,
    "start_s": pl.Float64,
    "end_s": pl.Float64,
    "low_s": pl.Float64,
    "high_s": pl.Float64,
}
"""On time-shared nodes: each predictor's prediction for each unfinished job, at each arrival. A running job
has no start; an infinite end means never. `low_s` and `high_s` bound the end, if known."""

LOCAL_USERS_SCHEMA: Schema = {
    **RUN_SCHEMA,
    "node": pl.Int32,
    "slowdown": pl.Float64,
    "tight_share": pl.Float64,
}
"""On time-shared nodes: the response of each node to its local users (`LocalResponse`)."""

SCHEMAS = {
    "facts": SCHEMA,
    "timings": TIMINGS_SCHEMA,
    "predictions": PREDICTIONS_SCHEMA,
    "local_users": LOCAL_USERS_SCHEMA,
}


class RunTables(NamedTuple):
    """The tables of one run, or of many."""

    facts: pl.DataFrame
    timings: pl.DataFrame
    predictions: pl.DataFrame
    local_users: pl.DataFrame

    @classmethod
    def of(cls, **tables: pl.DataFrame) -> RunTables:
        """The given tables; the others are empty."""
        return cls(
            **{name: tables.get(name, pl.DataFrame(schema=schema)) for name, schema in SCHEMAS.items()}
        )
