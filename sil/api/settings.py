"""Settings given as words or texts: checked, with one sentence for the user."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from math import inf
from numbers import Real

from scheduler import UserError
from sil.trace.log_clock import LogClock
from sil.workload.job_log import JobLog

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
    """Of a number itself; texts like "12h" count from the first submission. Raises as `since_first_s`."""
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
    """Raises UserError for a text that is no duration."""
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
