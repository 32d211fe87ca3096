"""The tables of runs of the harness: facts, timings, predictions, local users."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

from sil.trace.facts import SCHEMA, TIMINGS_SCHEMA

Schema = dict[str, pl.DataType | type[pl.DataType]]

_RUN: Schema = {"point": pl.Int32, "replication": pl.Int32, "scheduler": pl.String}

PREDICTIONS_SCHEMA: Schema = {
    **_RUN,
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
    **_RUN,
    "node": pl.Int32,
    "slowdown": pl.Float64,
    "tight_share": pl.Float64,
}
"""On time-shared nodes: how the local users of a node fared while active (`LocalResponse`)."""


class RunTables(NamedTuple):
    """The tables of one run, or of many."""

    facts: pl.DataFrame
    timings: pl.DataFrame
    predictions: pl.DataFrame
    local_users: pl.DataFrame

    @classmethod
    def of(
        cls,
        facts: pl.DataFrame | None = None,
        timings: pl.DataFrame | None = None,
        predictions: pl.DataFrame | None = None,
        local_users: pl.DataFrame | None = None,
    ) -> RunTables:
        """The given tables; the others are empty."""
        given = (facts, timings, predictions, local_users)
        return cls(
            *(
                pl.DataFrame(schema=schema) if table is None else table
                for table, schema in zip(given, SCHEMAS.values(), strict=True)
            )
        )

    @classmethod
    def join(cls, parts: Iterable[RunTables]) -> RunTables:
        """All parts concatenated."""
        return cls(*(pl.concat(tables) for tables in zip(cls.of(), *parts, strict=True)))


SCHEMAS: dict[str, Schema] = {
    "facts": SCHEMA,
    "timings": TIMINGS_SCHEMA,
    "predictions": PREDICTIONS_SCHEMA,
    "local_users": LOCAL_USERS_SCHEMA,
}
