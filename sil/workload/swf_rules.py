"""How a log is to be read, where its rows need repairs or its times a zone: the choices."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from sil.declared import Setting, Settings


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
    """How a log is read."""

    strict: Annotated[bool, Setting("Refuse a log that needs repairs.")] = False
    overrun: Annotated[
        Overrun, Setting("Jobs that exceeded their estimate: raise the estimate, or cut the run.")
    ] = Overrun.RAISE
    too_large: Annotated[
        TooLarge, Setting("Jobs larger than the machine: clip them, skip them, or stop with an error.")
    ] = TooLarge.CLIP
    time_zone: Annotated[
        str | None,
        Setting(
            "Of dates, and of local times in Slurm's accounting, like Europe/Berlin. Default: UTC.",
            metavar="ZONE",
        ),
    ] = None
