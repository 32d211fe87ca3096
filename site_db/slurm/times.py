"""Durations and time limits as Slurm writes them: 60, 01:00:00, 1-12."""

from __future__ import annotations

from functools import lru_cache
from math import ceil, inf

from site_db.files.given import MOST
from site_db.files.plain_numbers import whole

NO_LIMIT = ("", "unlimited", "infinite", "infinity", "partition_limit", "none", "n/a", "unknown", "-1")
"""Texts of limits that are none, in small letters."""
_UNITS_S = (86_400, 3_600, 60, 1)


@lru_cache(16_384)
def duration_s(text: str, alone_s: int) -> int | None:
    """The seconds of minutes:seconds, hours:minutes:seconds, days-hours and so on, or of a number alone, in
    units of `alone_s`; None for other texts."""
    if "-" not in text and ":" not in text:
        return None if (alone := whole(text)) is None else alone * alone_s
    return _of_clock_s(text)


@lru_cache(4_096)
def _of_clock_s(text: str) -> int | None:
    days, dash, clock = text.rpartition("-")
    numbers = [whole(part) for part in ([days] if dash else []) + clock.split(":")]
    if len(numbers) > 3 + bool(dash):
        return None
    first = 0 if dash else 1 if len(numbers) == 3 else 2
    found_s = 0
    for number, unit_s in zip(numbers, _UNITS_S[first:], strict=False):
        if number is None:
            return None
        found_s += number * unit_s
    return found_s


def limit_s(text: str) -> float:
    """Seconds of a limit, of which a number alone counts minutes, in whole minutes, rounded up; infinite if
    there is none. Raises ValueError with a clause."""
    if text.lower() in NO_LIMIT:
        return inf
    found_s = duration_s(text, 60)
    if not found_s or found_s > MOST:
        raise ValueError(f"'{text}'; expected minutes, hours:minutes:seconds, days-hours, or UNLIMITED")
    return 60.0 * ceil(found_s / 60)
