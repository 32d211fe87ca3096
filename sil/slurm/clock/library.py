"""The library of the clock, which is compiled when the package is installed, and which waits of Slurm's
daemons it may stretch.

What is not listed is woken on time, as every wait could be, and noted: a run only takes longer.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import NamedTuple

from scheduler import UserError

LIBRARY = Path(__file__).with_name(f"preloaded{EXTENSION_SUFFIXES[0]}")


@cache
def built() -> Path:
    """The path of the compiled library. Raises UserError if there is none."""
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        raise UserError(
            f"Slurm's controller gets simulated time on Linux with the GNU C library only, and this is "
            f"{platform.system()} {platform.libc_ver()[0]}; use a container of Debian or Ubuntu"
        )
    try:
        ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        raise UserError(
            f"the clock of Slurm's controller, which is compiled when sil-testbed is installed, cannot be "
            f"loaded ({error}); install sil-testbed again, where programs may run"
        ) from None
    return LIBRARY


class Pace(IntEnum):
    """When a wait is over."""

    ON_TIME = 0
    """At its time."""
    BEAT = 1
    """It is the beat of a loop that looks each second whether there is something to do."""
    POLL = 2
    """Its end has no effect unless the daemon is to end."""


class Wait(NamedTuple):
    """A kind of waits of a thread with a name, in which "*" stands for any further letters; "main" is the
    first thread, "none" any other that was not given a name. A deadline in whole seconds counts from the
    beginning of the present one."""

    thread: str
    function: str
    pace: Pace
    least_s: float
    most_s: float


def waits_of(release: tuple[int, int]) -> Iterator[Wait]:
    """The waits of a release; the first that fits counts."""
    for line in Path(__file__).with_name("waits.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            thread, function, pace, least_s, most_s, *releases = line.split()
            since, before = (tuple(map(int, each.split("."))) for each in releases)
            if since <= release < before:
                yield Wait(thread, function, Pace[pace], float(least_s), float(most_s))
