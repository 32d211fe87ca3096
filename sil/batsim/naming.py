"""Names of schedulers that speak Batsim's protocol: `batsim+tcp://HOST:PORT`, and `batsim: COMMAND`."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
from dataclasses import dataclass

from scheduler.errors import UserError
from scheduler.registry import SchedulerNotLoaded

PORT = 28_000
"""Where Batsim's schedulers listen if nobody says otherwise."""
PLACEHOLDER = "{port}"

_BEGINS = re.compile(r"batsim(\+tcp://|:)")


class CannotListen(UserError):
    """An address cannot be used. The message is one sentence for the user."""


@dataclass(frozen=True)
class Outside:
    """A scheduler in another process: one that listens at `address`, or is started by `command` first.

    The word {port} of a command stands for a free port; without it, the scheduler listens at port 28000.
    """

    address: str | None
    command: tuple[str, ...] = ()


def is_outside(name: str) -> bool:
    """Whether it names a scheduler that speaks the protocol."""
    return _BEGINS.match(name) is not None


def listens_already(name: str) -> bool:
    """Whether it names one that somebody else has started."""
    return name.startswith("batsim+")


def outside(name: str) -> Outside:
    """What a name stands for. Raises SchedulerNotLoaded for one that is malformed."""
    if importlib.util.find_spec("zmq") is None:
        raise SchedulerNotLoaded(
            f"scheduler '{name}': Batsim's protocol needs the package pyzmq; install this one with [batsim]"
        )
    if listens_already(name):
        address = name.removeprefix("batsim+")
        if not re.fullmatch(r"tcp://[\w.\-\[\]:]+:\d{1,5}", address):
            raise SchedulerNotLoaded(
                f"scheduler '{name}': '{address}' is no address like tcp://localhost:{PORT}"
            )
        return Outside(address)
    try:
        command = tuple(shlex.split(name.removeprefix("batsim:")))
    except ValueError as error:
        raise SchedulerNotLoaded(f"scheduler '{name}': the command cannot be read: {error}") from None
    if not command:
        raise SchedulerNotLoaded(
            f"scheduler '{name}': a command is missing; for example 'batsim: pybatsim easyBackfill'"
        )
    if shutil.which(command[0]) is None:
        raise SchedulerNotLoaded(f"scheduler '{name}': there is no command '{command[0]}' that can be run")
    return Outside(None, command)
