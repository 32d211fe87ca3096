"""Names of schedulers that speak Batsim's protocol: `batsim+tcp://HOST:PORT` and `batsim: COMMAND`."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from scheduler.registry import SchedulerNotLoaded

PORT = 28_000
"""The default port of Batsim's schedulers."""
PLACEHOLDER = "{port}"


@dataclass(frozen=True)
class BatsimScheduler:
    """A scheduler in another process: one that listens at `address`, or one to be started by `command`.

    `{port}` in the command stands for a free port; without it, the scheduler listens at port 28000.
    """

    address: str | None
    command: tuple[str, ...] = ()

    @property
    def files(self) -> list[Path]:
        """Those that its command names."""
        return [path for word in self.command if (path := Path(word)).is_file()]


def batsim_scheduler(name: str) -> BatsimScheduler | None:
    """The scheduler that `name` denotes; None if `name` does not denote one that speaks the protocol. Raises
    SchedulerNotLoaded if the name is malformed, its command cannot be run, or pyzmq is missing."""
    listens = name.startswith("batsim+tcp://")
    if not (listens or name.startswith("batsim:")):
        return None
    if importlib.util.find_spec("zmq") is None:
        raise SchedulerNotLoaded(
            f"scheduler '{name}': Batsim's protocol needs the package pyzmq; install this one with [batsim]"
        )
    if listens:
        address = name.removeprefix("batsim+")
        if not re.fullmatch(r"tcp://[\w.\-\[\]:]+:\d{1,5}", address):
            raise SchedulerNotLoaded(
                f"scheduler '{name}': '{address}' is not an address like tcp://localhost:{PORT}"
            )
        return BatsimScheduler(address)
    try:
        command = tuple(shlex.split(name.removeprefix("batsim:")))
    except ValueError as error:
        raise SchedulerNotLoaded(f"scheduler '{name}': the command cannot be parsed: {error}") from None
    if not command:
        raise SchedulerNotLoaded(
            f"scheduler '{name}': the command is missing; for example 'batsim: pybatsim easyBackfill'"
        )
    if shutil.which(command[0]) is None:
        raise SchedulerNotLoaded(f"scheduler '{name}': there is no executable command '{command[0]}'")
    return BatsimScheduler(None, command)
