"""Points in time and durations as Slurm's commands print them."""

from __future__ import annotations

from datetime import datetime

from site_db.files.plain_numbers import is_whole
from site_db.jobs.logs.swf_format import LATEST_UNIX_S

_EPOCH = datetime(1970, 1, 1)
"""Without a zone, like the times of the log: both are UTC."""


def unix_s(text: str) -> float | None:
    """A time in seconds since 1970-01-01 UTC; None where it is unknown or cannot be read."""
    if (number := whole(text)) is not None:
        # Slurm's mark for "no time" is 0.
        return float(number) if 0 < number <= LATEST_UNIX_S else None
    # Python also accepts a date alone, which may be wrong by a day.
    if len(text) < len("2024-01-01T00:00"):
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    time_s = time.timestamp() if time.tzinfo else (time - _EPOCH).total_seconds()
    return time_s if 0 < time_s <= LATEST_UNIX_S else None


def elapsed_s(text: str) -> int | None:
    """The seconds of a text like 3600, 60:00, 01:00:00 or 0-01:00:00; None for other texts."""
    days, dash, clock = text.rpartition("-")
    parts = [whole(part) for part in clock.split(":")]
    if len(parts) > 3 or (dash and len(parts) != 3):
        return None
    seconds = whole(days) if dash else 0
    for part, base in zip(parts, (24, 60, 60)[-len(parts) :], strict=True):
        if seconds is None or part is None:
            return None
        seconds = seconds * base + part
    return seconds


def whole(text: str) -> int | None:
    """A whole number of up to 18 digits; None for other texts."""
    return int(text) if is_whole(text) and len(text) <= 18 else None
