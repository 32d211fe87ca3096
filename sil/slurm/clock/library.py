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
from math import inf
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


_Release = tuple[int, int]


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
    beginning of the present one. `since` and `before` are releases."""

    thread: str
    function: str
    pace: Pace
    least_s: float
    most_s: float
    since: _Release = (0, 0)
    before: _Release = (99, 0)


def every(thread: str, function: str, length_s: float, pace: Pace, *releases: _Release) -> Wait:
    """The waits of one length."""
    return Wait(thread, function, pace, length_s, length_s, *releases)


_POOL = (25, 5)
"""The first release in which threads come from a pool, that of connections among them."""
_LATER = (23, 2)
_WAITS = (
    # The background loop: ten sleeps, or a wait, then it looks around.
    every("*", "usleep", 0.1, Pace.BEAT),
    every("main", "cond_timedwait", 1, Pace.BEAT, _LATER),
    # Backfilling looks whether it is due, or waits until it is.
    every("bckfl", "cond_timedwait", 1, Pace.BEAT),
    Wait("bckfl", "cond_timedwait", Pace.ON_TIME, 0, inf),
    # Usage of accounts decays.
    Wait("decay", "cond_timedwait", Pace.ON_TIME, 0, inf),
    # The agent, and updates of nodes and steps.
    every("none", "cond_timedwait", 2, Pace.POLL),
    every("fed_*", "cond_timedwait", 2, Pace.POLL),
    every("fed_*", "sleep", 2, Pace.ON_TIME, (0, 0), _LATER),
    every("worker[*", "cond_timedwait", 2, Pace.POLL, _POOL),
    # Threads that send messages, until one of them has ended.
    every("agent", "usleep", 0.005, Pace.ON_TIME),
    every("worker[*", "usleep", 0.005, Pace.ON_TIME, _POOL),
    # The state is saved at most as often.
    every("sstate", "cond_timedwait", 1, Pace.ON_TIME),
    # Power saving, which has a thread also if it is not configured.
    every("powersave", "cond_timedwait", 1, Pace.POLL, _POOL),
    # Timeouts of connections.
    Wait("watch", "cond_timedwait", Pace.ON_TIME, 0, inf, _POOL),
    # So few that their reason does not matter, such as those of accounting.
    Wait("*", "*", Pace.ON_TIME, 5, inf),
)


def waits_of(release: _Release) -> Iterator[Wait]:
    """The waits of a release; the first that fits counts."""
    return (wait for wait in _WAITS if wait.since <= release < wait.before)
