"""Logs of jobs: readers, a model that makes them, and moments and durations in them, as numbers or texts."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from datetime import datetime, timedelta
from math import inf
from numbers import Real
from pathlib import Path
from typing import Any

from scheduler import UserError
from sil.declared import as_keyword, spread
from sil.site.logs import LogFile
from sil.trace.log_clock import LogClock
from sil.workload.job_log import JobLog


@spread(as_keyword)
def read_log(path: str | Path, *, file: LogFile) -> JobLog:
    """The jobs of a log: Standard Workload Format, or a Batsim workload (JSON); plain or compressed. With
    `nodes` or `site`, also Slurm's accounting (the output of `sacct -P` or `sacct --json`) and Alibaba's pods
    (CSV); then jobs request parts of these nodes.

    {file}

    Repairs are in `notes` of the result. Times are seconds from the beginning of the log. Raises UserError if
    a file cannot be read.
    """
    from site_db.files.access import forget_pipes

    if not isinstance(path, str | os.PathLike):
        raise UserError(f"path is a {type(path).__name__}; expected a file, or sil.log_from for a table")
    forget_pipes()
    return file.read(Path(path))


def log_from(table: Any, processors: int, *, name: str = "table") -> JobLog:
    """The jobs in a table, for a machine with this number of processors.

    `table` is a data frame of Polars or pandas, an Arrow table, or a dictionary of columns: `submit_s` and
    `run_s` in seconds, `processors`, and if known `job` (a number; by default 1, 2, ...), `estimate_s` (by
    default the run time) and `user` (a number or a name). Other columns are left out, with a note. `name` is
    that of the log in results. Raises UserError with the row, from 0 on, of a value that no job can have.
    """
    from sil.workload.tables import log_from_table

    return log_from_table(table, processors, name)


def lublin_feitelson(jobs: int, processors: int, *, load: float | None = None, seed: int = 0) -> JobLog:
    """Jobs of the model of Lublin and Feitelson (2003) for a machine with this number of processors.

    Users estimate run times exactly. `load` is the load that the jobs offer, within 1 %, by default that of
    the model: they come more or less often, with the same busy and quiet hours of the day. Raises UserError
    for impossible numbers and loads.
    """
    import numpy as np

    from sil.workload.lublin import Lublin

    return Lublin().jobs(jobs, processors, np.random.default_rng(seed), load)


Duration = float | str | timedelta
"""Seconds, or a text like "60d" with one of the units s, m, h, d and w."""
UNITS_S = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}


def given_log(log: object, bound_s: float | None = None) -> JobLog:
    """The log, with a threshold of bounded slowdowns if one is given. Raises UserError for what is no log,
    like its path, and for a threshold that is no positive number."""
    if not isinstance(log, JobLog):
        raise UserError(
            f"log is {log!r}; expected a log, as from sil.read_log(...), or sil.log_from(...) for a table"
        )
    if bound_s is None:
        return log
    if not (isinstance(bound_s, Real) and 0.0 < bound_s < inf):
        raise UserError(f"bound_s is {bound_s!r}; expected seconds, more than 0")
    return replace(log, bound_s=float(bound_s))


Moment = float | timedelta | datetime | str
"""Seconds, a text like "12h", or a date, also in ISO format."""


def second_of_log(moment: Moment, clock: LogClock) -> float:
    """The second of the log: a number itself; a text like "12h" counts from the first submission. Raises as
    `since_first_s`."""
    if isinstance(moment, int | float):
        return moment
    return clock.first_s + since_first_s(moment, clock)


def since_first_s(moment: Moment, clock: LogClock) -> float:
    """Seconds since the first submission. Raises UserError for what is no time, and for a date of a log
    without dates."""
    if isinstance(moment, datetime) or (isinstance(moment, str) and not DURATION.fullmatch(moment)):
        return clock.since_first_s(moment)
    return seconds(moment)


DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhdw]?)\s*", re.ASCII)


def seconds(duration: Duration) -> float:
    """The seconds of a duration. Raises UserError for a text that is no duration."""
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    if not isinstance(duration, str):
        return float(duration)
    found = DURATION.fullmatch(duration)
    if found is None:
        raise UserError(
            f"{duration!r} is no duration; expected seconds, or a text like '90s', '12h' or '60d'"
        )
    return float(found[1]) * UNITS_S[found[2] or "s"]
