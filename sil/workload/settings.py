"""How a log is read, which of its jobs are used, and under which load: the settings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from scheduler import UserError
from sil.declared import Setting, Settings
from sil.trace.log_clock import moment_of
from site_db.files.formats import is_decimal
from site_db.files.input_errors import given

if TYPE_CHECKING:
    from sil.workload.job_log import JobLog
    from sil.workload.slices import SlicedLog


class Overrun(StrEnum):
    """What becomes of a job that ran for longer than its estimate."""

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
    * `closed_loop`: Submit jobs that name a preceding one (SWF, field 17) their think time (field 18) after
      the end of that job, instead of at their times in the log.
    * `time_zone`: Of dates, and of local times in Slurm's accounting, like Europe/Berlin. Default: UTC.
    """

    strict: bool = False
    overrun: Overrun = Overrun.RAISE
    too_large: TooLarge = TooLarge.CLIP
    closed_loop: bool = False
    time_zone: Annotated[str | None, Setting(metavar="ZONE")] = None


def _factor(text: str) -> float:
    if is_decimal(text):
        return float(text)
    percent = text.removesuffix("%").strip()
    meant = f"{float(percent) / 100:g}" if text.endswith("%") and is_decimal(percent) else "0.8"
    raise UserError(f"'{text}' is no number; write {meant}")


def factors_in(text: str) -> tuple[float, float, int]:
    """The least and the greatest factor of deadlines, and the seed. Raises UserError."""
    low, _, rest = text.partition(":")
    high, _, seed = rest.partition(":")
    if is_decimal(low) and is_decimal(high or low) and (seed or "1").isdecimal():
        return float(low), float(high or low), int(seed or 1)
    raise UserError(f"'{text}' is no range of factors; write 1.5:4, or 1.5:4:7 with a seed")


LOAD = Setting(parser=_factor, metavar="NUMBER")
FROM, TO = (Setting(option=option, parser=moment_of, metavar="DATE") for option in ("--from", "--to"))


@dataclass(frozen=True, kw_only=True)
class Period(Settings):
    """The jobs that were submitted between two dates.

    * `begin`: Only jobs submitted at or after this time (UTC, or of --time-zone).
    * `end`: Only jobs submitted before this time (UTC, or of --time-zone).
    """

    begin: Annotated[datetime | None, FROM] = None
    end: Annotated[datetime | None, TO] = None

    def of(self, log: JobLog) -> JobLog:
        """The jobs of a log that were submitted in this period. Raises InvalidFile."""
        return log if self.begin is None and self.end is None else log.between(self.begin, self.end)


@dataclass(frozen=True, kw_only=True)
class LogPart(Period):
    """Some of these by index, under another load.

    * `jobs`: Only jobs A to B - 1, in order of submission, counted from 0.
    * `load`: Scale the load: divide interarrival times by this factor.
    """

    jobs: Annotated[str | None, Setting(metavar="A:B")] = None
    load: Annotated[float | None, LOAD] = None

    def of(self, log: JobLog) -> JobLog:
        log = super().of(log)
        if self.jobs is not None:
            from sil.workload.job_log import places

            log = log.slice(*places(self.jobs))
        return log if self.load is None else log.with_load(self.load)


@dataclass(frozen=True, kw_only=True)
class Slicing(Settings):
    """The slices of a log that are replayed.

    * `slices`: Cut each log into this number of slices with equally many jobs. Default: 1.
    * `slice_jobs`: Cut each log into slices of this number of jobs; what remains is left out.
    * `jobs`: A slice: jobs A to B - 1, in order of submission, counted from 0. May be repeated.
    * `warm_up_jobs`: Replay this number of jobs before each slice, and half as many after it, without
      measuring them: by itself, a slice begins with an empty machine. The first slice has none before it.
      Default: as many as a slice has, at most 1,000.
    """

    slices: Annotated[int | None, Setting(least=1)] = None
    slice_jobs: Annotated[int | None, Setting(least=1)] = None
    jobs: Annotated[list[str] | None, Setting(metavar="A:B", in_python=False)] = None
    warm_up_jobs: Annotated[int | None, Setting(least=0)] = None

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.slices, self.slice_jobs, self.jobs or None)) > 1:
            one, two, three = (given(f"--{name}").rstrip("=") for name in ("slices", "slice-jobs", "jobs"))
            raise UserError(f"{one}, {two} and {three} all say what the slices are; give one of them")

    def sliced(self, log: JobLog) -> SlicedLog:
        """The slices of a log. Raises InvalidFile."""
        from sil.workload.slices import chosen_slices, equal_slices, slices_of_size, with_warm_up

        if self.jobs:
            found = chosen_slices(log, self.jobs)
        elif self.slice_jobs is not None:
            found = slices_of_size(log, self.slice_jobs)
        else:
            found = equal_slices(log, self.slices or 1)
        return with_warm_up(found, self.warm_up_jobs)
