"""A log as the compiled engine takes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from sil.workload.job_log import JobLog
from sil.world.compiled_replay.engine import CompiledQueue, Jobs
from sil.world.compiled_replay.tables import JobNames


class CompiledLog(NamedTuple):
    """The jobs that arrive, the queue in which they wait, and what a trace says of them."""

    jobs: Jobs
    queue: CompiledQueue[Any]
    names: JobNames


def names_of(
    log: JobLog,
    arriving: pl.DataFrame,
    on_arrival: Mapping[str, str | pl.Series],
    refusals: Mapping[int, str],
) -> JobNames:
    """What a trace says of the jobs of a log. `on_arrival` and `refusals`: see `JobNames`."""
    return JobNames(
        arriving["job"].to_numpy(),
        arriving["user"].to_numpy(),
        log.users,
        arriving["processors"].to_numpy(),
        on_arrival,
        refusals,
    )
