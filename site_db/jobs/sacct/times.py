"""Points in time and durations as Slurm's commands print them."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from site_db.files.given import InvalidFile
from site_db.files.plain_numbers import is_whole, whole
from site_db.jobs.logs.swf_format import LATEST_UNIX_S


def zone_named(name: str | None) -> tzinfo:
    """A time zone like Europe/Berlin; UTC without a name. Raises InvalidFile for one that this computer does
    not know."""
    if name is None or name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        raise InvalidFile(
            f"the time zone '{name}' is not known here; expected a name like Europe/Berlin; if it is "
            "right, install the time zones with: pip install tzdata"
        ) from None


def is_local(text: str) -> bool:
    """Whether a time states no zone."""
    return not is_whole(text) and (time := _date(text)) is not None and time.tzinfo is None


def unix_times(text: str, zone: tzinfo = UTC) -> tuple[float, ...]:
    """The seconds since 1970-01-01 UTC that a time in `zone` may be: two in the hour that occurs twice when
    clocks are set back; none where it is unknown or cannot be read."""
    if "-" not in text and (number := whole(text)) is not None:
        # Slurm's mark for "no time" is 0.
        return (float(number),) if 0 < number <= LATEST_UNIX_S else ()
    time = _date(text)
    if time is None:
        return ()
    if time.tzinfo is not None or zone is UTC:
        time_s = _seconds(time)
        return (time_s,) if 0 < time_s <= LATEST_UNIX_S else ()
    return _in_zone(time, zone)


@lru_cache(4_096)
def _in_zone(time: datetime, zone: tzinfo) -> tuple[float, ...]:
    times = sorted({_seconds(time.replace(tzinfo=zone, fold=fold)) for fold in (0, 1)})
    # No clock shows the hour that is left out in spring: it counts as if clocks had not been set forward.
    times = times if len(times) == 1 or _occurs_twice(time, zone) else times[-1:]
    return tuple([time_s for time_s in times if 0 < time_s <= LATEST_UNIX_S])


def _date(text: str) -> datetime | None:
    # Python also accepts a date alone, which may be wrong by a day.
    if len(text) < len("2024-01-01T00:00"):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


_LOCAL_EPOCH = datetime(1970, 1, 1)
_EPOCH = _LOCAL_EPOCH.replace(tzinfo=UTC)


def _seconds(time: datetime) -> float:
    try:
        return (time - (_LOCAL_EPOCH if time.tzinfo is None else _EPOCH)).total_seconds()
    except OverflowError:
        return 0.0


def _occurs_twice(time: datetime, zone: tzinfo) -> bool:
    first, second = (time.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    return first is not None and second is not None and first > second
