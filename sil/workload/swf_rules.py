"""How a log is to be read, where its rows need repairs or its times a zone: the choices."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
class Rules:
    """How a log is read: `strict` refuses it, with the first line that needs a repair."""

    strict: bool = False
    overrun: Overrun = Overrun.RAISE
    too_large: TooLarge = TooLarge.CLIP
    time_zone: str | None = None
    """Of dates, and of local times in accounting: a name like Europe/Berlin. UTC by default."""
