"""How a log is read, which of its jobs are used, and under which load: the settings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from scheduler import UserError
from sil.declared import Setting, Settings
from sil.trace.log_clock import moment_of
from site_db.files.input_errors import InvalidFile
from site_db.files.plain_values import is_decimal, is_whole

if TYPE_CHECKING:
    from sil.workload.job_log import JobLog


class Overrun(StrEnum):
    """What becomes of a job that ran for longer than its user said."""

    RAISE = "raise"  # the estimate is raised to the run time
    CUT = "cut"  # the run is cut to the estimate


class TooLarge(StrEnum):
    """What becomes of a job that asks for more processors than there are."""

    CLIP = "clip"
    SKIP = "skip"
    STOP = "stop"


@dataclass(frozen=True)
class Rules(Settings):
    """How a log is read, where its rows need repairs or its times a zone.

    * `strict`: Refuse a log that needs repairs.
    * `overrun`: Jobs that exceeded their estimate: raise the estimate, or cut the run.
    * `too_large`: Jobs larger than the machine: clip them, skip them, or stop with an error.
    * `time_zone`: Of dates, and of local times in Slurm's accounting, like Europe/Berlin. Default: UTC.
    """

    strict: bool = False
    overrun: Overrun = Overrun.RAISE
    too_large: TooLarge = TooLarge.CLIP
    time_zone: Annotated[str | None, Setting(metavar="ZONE")] = None


def _factor(text: str) -> float:
    if is_decimal(text):
        return float(text)
    percent = text.removesuffix("%").strip()
    meant = f"{float(percent) / 100:g}" if text.endswith("%") and is_decimal(percent) else "0.8"
    raise UserError(f"'{text}' is no number; write {meant}")


LOAD = Setting(parser=_factor, metavar="NUMBER")
_FROM, _TO = (Setting(option=option, parser=moment_of, metavar="DATE") for option in ("--from", "--to"))


@dataclass(frozen=True, kw_only=True)
class Period(Settings):
    """The jobs that were submitted between two dates.

    * `begin`: Only jobs submitted at or after this time (UTC, or of --time-zone).
    * `end`: Only jobs submitted before this time (UTC, or of --time-zone).
    """

    begin: Annotated[datetime | None, _FROM] = None
    end: Annotated[datetime | None, _TO] = None

    def of(self, log: JobLog) -> JobLog:
        """Raises InvalidFile."""
        return log if self.begin is None and self.end is None else log.between(self.begin, self.end)


@dataclass(frozen=True, kw_only=True)
class Part(Period):
    """Some of these by index, under another load.

    * `jobs`: Only jobs A to B - 1, in order of submission, counted from 0.
    * `load`: Scale the load: divide interarrival times by this factor.
    """

    jobs: Annotated[str | None, Setting(metavar="A:B")] = None
    load: Annotated[float | None, LOAD] = None

    def of(self, log: JobLog) -> JobLog:
        log = super().of(log)
        if self.jobs is not None:
            log = log.slice(*places(self.jobs))
        return log if self.load is None else log.with_load(self.load)


def places(text: str) -> tuple[int | None, int | None]:
    """The places `A:B` in the order of submission; each may be missing. Raises InvalidFile."""
    first, colon, last = text.partition(":")
    if colon and all(not place or is_whole(place.removeprefix("-")) for place in (first, last)):
        return int(first) if first else None, int(last) if last else None
    raise InvalidFile(
        f"jobs '{text}' cannot be read; give a range of jobs in order of submission, like 0:1000"
    )
