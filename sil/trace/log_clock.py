"""The times of a replayed log for people: since the first submission, and as dates where these are known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from scheduler import UserError

KEY = "clock"
"""The key in the description of a replay."""
MAX_PERIODS = 20_000
"""The most days, weeks, ... of a log that begin."""
_PLANNED = re.compile(r"\b(reserved for) ([\d,.]+(?:e\+?\d+)?) s\b")
"""Matches times in the reasons that schedulers give."""


@dataclass(frozen=True)
class LogClock:
    """When the first job of a log was submitted, in seconds of the log; and when these began, if that is
    known."""

    first_s: float = 0.0
    began_unix_s: float | None = None
    zone: tzinfo = UTC

    @classmethod
    def described(cls, description: Mapping[str, Any], first_s: float = 0.0) -> LogClock:
        """The clock of a replay with this description, whose first job arrived then, if it does not say when.
        Other runs count from their beginning."""
        if "log" not in description:
            return cls()
        try:
            found = {"first_submission_s": first_s, **description.get(KEY, {})}
            zone = ZoneInfo(found["time_zone"]) if "time_zone" in found else UTC
            began_s = found.get("unix_start_s")
            return cls(float(found["first_submission_s"]), None if began_s is None else float(began_s), zone)
        except (ZoneInfoNotFoundError, ValueError, TypeError):  # changed by someone else
            return cls(first_s)

    def description(self) -> dict[str, dict[str, Any]]:
        """The description of a clock; nothing if dates are unknown."""
        if self.began_unix_s is None:
            return {}
        zone = {"time_zone": self.zone.key} if isinstance(self.zone, ZoneInfo) else {}
        return {KEY: {"unix_start_s": self.began_unix_s, "first_submission_s": self.first_s, **zone}}

    def since_first_s(self, moment: datetime | str) -> float:
        """The seconds from the first submission to a date, which may be in ISO format. Raises UserError."""
        try:
            date = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        except ValueError:
            raise UserError(
                f"{moment!r} is no time; expected seconds, a text like '90s', '12h' or '60d', or a date "
                "like 2001-05-31T12:00"
            ) from None
        if self.began_unix_s is None:
            raise UserError(
                f"the log has no header UnixStartTime, so the date {moment} is unknown; give a time since "
                f"the first submission, like '12h'"
            )
        return self.second_of(date) - self.first_s

    def second_of(self, date: datetime) -> float:
        """The second of the log of a date; dates are known."""
        zoned = date if date.tzinfo else date.replace(tzinfo=self.zone)
        return zoned.timestamp() - (self.began_unix_s or 0.0)

    def date(self, time_s: float) -> str | None:
        """The date of a second of the log, if it is known."""
        if self.began_unix_s is None:
            return None
        try:
            began = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=self.began_unix_s + time_s)
            return f"{began.astimezone(self.zone):%Y-%m-%d %H:%M:%S}"
        except (OverflowError, ValueError):
            return None

    def begins_of(self, period: str, until_s: float) -> Iterator[float]:
        """The seconds of the log at which a day, a week (on Sunday), a month, a quarter or a year begins
        (`daily`, `weekly`, ...), from the first submission on and until a time; none if dates are unknown."""
        if self.date(self.first_s) is None or self.began_unix_s is None:
            return
        first = datetime.fromtimestamp(self.began_unix_s + self.first_s, self.zone)
        day = first.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        for _ in range(MAX_PERIODS):
            if period in ("daily", "weekly"):
                day += timedelta(7 - day.isoweekday() % 7 if period == "weekly" else 1)
            else:
                months = {"monthly": 1, "quarterly": 3, "yearly": 12}[period]
                year, month = divmod((12 * day.year + day.month - 1) // months * months + months, 12)
                day = datetime(year, month + 1, 1)
            if (begins_s := self.second_of(day)) > until_s:
                return
            yield begins_s

    @property
    def zero_ms(self) -> float | None:
        """The second 0 of the log on the clock of its zone, in milliseconds since 1970, if dates are known.
        The zone's offset is that at the first submission."""
        if self.date(self.first_s) is None or self.began_unix_s is None:
            return None
        first = datetime.fromtimestamp(self.began_unix_s + self.first_s, self.zone)
        return 1e3 * (self.began_unix_s + (first.utcoffset() or timedelta()).total_seconds())

    def text(self, time_s: float) -> str:
        """Seconds since the first submission, and the date of a second of the log."""
        date = self.date(time_s)
        return seconds_text(time_s - self.first_s) + ("" if date is None else f"  {date}")

    def sentence(self, text: str) -> str:
        """A sentence with the times that schedulers name since the first submission, too."""
        if not self.first_s:
            return text
        return _PLANNED.sub(
            lambda found: f"{found[1]} {float(found[2].replace(',', '')) - self.first_s:,.10g} s", text
        )


def seconds_text(seconds: float) -> str:
    """Seconds to the millisecond, without trailing zeros."""
    return f"{seconds:,.3f}".rstrip("0").rstrip(".") + " s"


def moment_of(text: str) -> datetime:
    """A date in ISO format. Raises UserError for another text."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise UserError(f"'{text}' is no date; expected one like 2001-05-31 or 2001-05-31T12:00") from None
