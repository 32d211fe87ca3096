"""The library of a clock, which is compiled when the package is installed, and its driver: it lets time pass
for its daemons, and stop while they compute; and which waits of Slurm's daemons it may stretch.

What is not listed is woken on time, as every wait could be, and noted: a run only takes longer.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from scheduler.messages import UserError, counted

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


SECOND_US = 1_000_000
FINE_S = 5.0
"""The seconds after an event during which beats are not stretched."""
LIMIT_S = 300.0
"""The real time, in seconds, in which daemons have to come to rest after each event."""
ON_ITS_WAY_S = 0.001
"""The real time, in seconds, in which a packet passes the kernel, also if this has other work to do."""
_DAEMON, _GUEST, _SERVANT = 0, 1, 2
_FOREVER_US = 2**63 - 1


class AdvanceEnd(IntEnum):
    """Why an advance has ended."""

    REACHED = 0
    """The time is the one asked for."""
    READABLE = 1
    """One of the handles is readable: a connection waits to be served. Serve it, then go on."""
    DIED = 2
    """A daemon has ended."""
    HANGS = 3
    """The daemons did not come to rest within the real time allowed."""
    REAL = 4
    """A daemon waits in real time, so that its result would vary (`ControllerClock.unknown_waits`)."""


class UnknownWait(NamedTuple):
    """A kind of waits of a daemon that is not listed for its release."""

    thread: str
    function: str
    length_s: float
    times: int

    def __str__(self) -> str:
        return (
            f"thread {self.thread} in {self.function} for {self.length_s:g} s ({counted(self.times, 'time')})"
        )


class _Unknown(ctypes.Structure):
    """The layout of `native/layout.h`."""

    _fields_ = (
        ("thread", ctypes.c_char * 16),
        ("function", ctypes.c_char * 16),
        ("length_us", ctypes.c_int64),
        ("times", ctypes.c_uint32),
    )


class ControllerClock:
    """The clock in the file `path`, which is made here, at `now_s` (seconds since the epoch), with a link to
    the library beside it.

    Daemons that are started with `environment` have its time. Simulated times are seconds since the epoch;
    the clock's resolution is a microsecond. A context manager; neither file is removed. Raises UserError.
    """

    def __init__(self, path: Path, now_s: float, limit_s: float = LIMIT_S) -> None:
        self._library = _library()
        self._path = path
        self._preloaded = path.with_suffix(".so")
        if re.search(r"[\s:$]", str(path)):
            raise UserError(
                f"Slurm's controller cannot run in {path.parent}: no library is preloaded from a path with "
                f"blanks, colons or dollar signs; set TMPDIR to another folder"
            )
        self._preloaded.unlink(missing_ok=True)
        self._preloaded.symlink_to(built())  # whose own path may have any characters
        self.limit_s = limit_s
        self._driver: int | None = self._library.sil_clock_open(bytes(path), _us(now_s))
        if not self._driver:
            raise OSError(f"{path} cannot be made or mapped")
        self._handles: Any = (ctypes.c_int * 0)()
        self._step_us = SECOND_US

    def __enter__(self) -> ControllerClock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._driver:
            self._library.sil_clock_close(self._driver)
            self._driver = None

    @property
    def now_s(self) -> float:
        return float(self._library.sil_clock_now(self._driver) / SECOND_US)

    @property
    def next_s(self) -> float:
        """When the first thread wakes up; infinite if none waits."""
        at_us = self._library.sil_clock_next(self._driver)
        return math.inf if at_us == _FOREVER_US else at_us / SECOND_US

    def environment(self, role: str = "daemon", users: Path | None = None) -> Mapping[str, str]:
        """The variables with which a program has this clock's time.

        A "daemon" waits for this driver, which watches it; so does a "driven" command, which may end; a
        "reader" has the time, but waits in real time. Its users are those of the file `users`, in the form
        of /etc/passwd, and this computer's.
        """
        found = {"LD_PRELOAD": str(self._preloaded), "SIL_CLOCK": str(self._path), "SIL_CLOCK_ROLE": role}
        return found if users is None else {**found, "SIL_USERS": str(users)}

    @property
    def n_daemons(self) -> int:
        """How many daemons have begun to run with this clock."""
        return int(self._library.sil_clock_daemons(self._driver))

    def is_helped(self) -> bool:
        """Whether the daemon that began last has started a process that works for it; so, at rest, that
        daemon need not wait for time to pass."""
        tasks = Path(f"/proc/{self._library.sil_clock_last(self._driver)}/task")
        children = " ".join(_read(path) for path in tasks.glob("*/children")).split()
        return any(_read(Path(f"/proc/{child}/stat")).rpartition(")")[2][1:2] != "S" for child in children)

    def watch(self, process: int, is_servant: bool = False) -> None:
        """Wait for this process, too, which does not know the clock; in less time for a servant, to which
        only the daemon that began last talks. Raises ProcessLookupError."""
        if self._library.sil_clock_watch(self._driver, process, _SERVANT if is_servant else _DAEMON):
            raise ProcessLookupError(f"there is no process {process}")

    def finish(self, command: subprocess.Popen[str]) -> AdvanceEnd:
        """Let time pass until a command has ended, which talks to the daemons: READABLE then, or if a
        connection waits. No time passes while a process computes."""
        with open(os.pidfd_open(command.pid), "rb", buffering=0) as ended:
            if self._library.sil_clock_watch(self._driver, command.pid, _GUEST):
                return AdvanceEnd.READABLE
            try:
                return self.until_readable(ended.fileno())
            finally:
                self._library.sil_clock_forget(self._driver)

    def wake_on(self, handles: Sequence[int]) -> None:
        """End advances early when one of these handles is readable."""
        self._handles = (ctypes.c_int * len(handles))(*handles)

    def stretch_beats(self, step_s: float) -> None:
        """Have the loops of the daemons that look around each second do so each `step_s` from now on, except
        for `FINE_S` after an `event`."""
        self._library.sil_clock_beats(self._driver, _us(step_s), 0)
        self._step_us = _us(step_s)

    def event(self) -> None:
        """Note that something happened that daemons will look at: their loops do so now, and each second for
        some time."""
        self._library.sil_clock_beats(self._driver, self._step_us, _us(self.now_s + FINE_S))

    def classify(self, waits: Iterable[Wait]) -> None:
        """Set how the waits of daemons that are started from now on are taken; without, each is woken on
        time."""
        for wait in waits:
            names = wait.thread.encode(), wait.function.encode()
            length = _us(wait.least_s), _FOREVER_US if wait.most_s == math.inf else _us(wait.most_s)
            if self._library.sil_clock_rule(self._driver, *names, *length, wait.pace):
                raise ValueError("there are too many kinds of waits")

    @property
    def unknown_waits(self) -> list[UnknownWait]:
        """The waits of all daemons so far for which there was no kind."""
        found: list[UnknownWait] = []
        while entry := self._library.sil_clock_unknown(self._driver, len(found)):
            one = entry.contents
            length_s = one.length_us / SECOND_US
            found.append(UnknownWait(one.thread.decode(), one.function.decode(), length_s, one.times))
        return found

    def charge_computing(self, factor: float) -> None:
        """Charge computing from now on: a second of CPU time of the daemon that began last takes `factor`
        seconds; with 0, time stands still while it computes."""
        self._library.sil_clock_charge(self._driver, factor)

    def settle(self) -> AdvanceEnd:
        """Let the daemons come to rest at the present time."""
        return self.advance(self.now_s)

    def advance(self, to_s: float, jumps: bool = False) -> AdvanceEnd:
        """Let time pass: each waiting thread is woken at its time, one at a time in order, and the daemons
        come to rest after each. Where computing is charged, the time reached may be later.

        If time `jumps`, it is `to_s` at once, and threads whose time was before are late: much faster, for
        when nothing is to be decided."""
        waited_for = self._handles, len(self._handles), self.limit_s
        return AdvanceEnd(self._library.sil_clock_advance(self._driver, _us(to_s), jumps, *waited_for))

    def until_readable(self, handle: int) -> AdvanceEnd:
        """Let the daemons answer: READABLE as soon as `handle` is readable, or one of `wake_on`. As little
        time passes as they need for that, none in most cases. HANGS if that takes too much real time."""
        before = self._handles
        self.wake_on([*before, handle])
        deadline_s = time.monotonic() + self.limit_s
        try:
            while (found := self.settle()) is AdvanceEnd.REACHED:
                time.sleep(ON_ITS_WAY_S)  # or for a process that is not watched
                if (found := self.settle()) is AdvanceEnd.REACHED and time.monotonic() > deadline_s:
                    return AdvanceEnd.HANGS
                if found is AdvanceEnd.REACHED and self.next_s < math.inf:
                    found = self.advance(self.next_s)
                if found is not AdvanceEnd.REACHED:
                    break
            return found
        finally:
            self._handles = before


def _read(path: Path) -> str:
    """The text of a file of a process; empty if the process has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""


def _us(time_s: float) -> int:
    return round(time_s * SECOND_US)


@cache
def _library() -> Any:
    """The library. Its functions release Python's lock."""
    found = ctypes.CDLL(str(built()))
    driver, time_us, handles = ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_int)
    for name, returned, *given in (
        ("open", driver, ctypes.c_char_p, time_us),
        ("close", None, driver),
        ("watch", ctypes.c_int, driver, ctypes.c_int, ctypes.c_int),
        ("forget", None, driver),
        ("daemons", ctypes.c_int, driver),
        ("last", ctypes.c_int, driver),
        ("now", time_us, driver),
        ("next", time_us, driver),
        ("rule", ctypes.c_int, driver, ctypes.c_char_p, ctypes.c_char_p, time_us, time_us, ctypes.c_int),
        ("unknown", ctypes.POINTER(_Unknown), driver, ctypes.c_uint32),
        ("beats", None, driver, time_us, time_us),
        ("charge", None, driver, ctypes.c_double),
        ("advance", ctypes.c_int, driver, time_us, ctypes.c_int, handles, ctypes.c_int, ctypes.c_double),
    ):
        function = getattr(found, f"sil_clock_{name}")
        function.restype, function.argtypes = returned, given
    return found
