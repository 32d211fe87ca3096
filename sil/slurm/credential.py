"""How daemons, commands and nodes prove to each other who they are: by munge, with a key of their own, or not
at all.

Without munge, whoever has an account on this computer can send messages to the controller in anybody's
name while it runs.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path

from scheduler.rules import RETURNS_IN_TIME
from sil.slurm.daemons import STARTS_WITHIN_S, ControllerHangs, Daemons, InvalidConfiguration
from sil.slurm.installation import Installation, NoSlurm
from sil.slurm.protocol.authentication import Authentication, Stated
from sil.slurm.protocol.munge import Munge
from sil.world.guard.faults import one_line

REMEDY = "apt install munge"
_PLUGIN = "auth_munge.so"
Credential = Callable[[Daemons], Path | None]
"""Starts what is needed; returns the socket of munge, or None without it."""


def stated(daemons: Daemons) -> None:
    """Everybody is believed."""


def munge(daemons: Daemons) -> Path:
    """Start munge's daemon, which works in real time. Raises NoSlurm if it is not installed, and as
    `Daemons.started`."""
    folder = daemons.folder
    socket, pid = folder / "munge.socket", folder / "munge.pid"
    process = daemons.started("munge", munge_command(folder, daemons.installation), {})
    deadline_s = time.monotonic() + STARTS_WITHIN_S
    while not (socket.exists() and pid.exists() and pid.read_text().strip()):
        if process.how_it_ended() is not None:
            said = " | ".join(map(one_line, daemons.log_tail("munge"))) or "it says nothing"
            raise InvalidConfiguration(f"munged does not start: {said}")
        if time.monotonic() > deadline_s:
            raise ControllerHangs(RETURNS_IN_TIME, "munged did not start", 0.0)
        time.sleep(0.001)
    daemons.clock.watch(int(pid.read_text()))
    return socket


def munge_command(folder: Path, installation: Installation) -> list[str]:
    """Of munge's daemon with a new key; all its files are in `folder`. Raises NoSlurm."""
    program = munged(installation)
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    endings = {
        "key-file": "key",
        "socket": "socket",
        "pid-file": "pid",
        "seed-file": "seed",
        "log-file": "log",
    }
    options = [f"--{what}={folder / 'munge'}.{ending}" for what, ending in endings.items()]
    # It is used to sockets that all can reach, which this one is not.
    return [str(program), "--foreground", "--force", "--num-threads=1", *options]


def munged(installation: Installation) -> Path:
    """Munge's daemon. Raises NoSlurm if it is not installed, or Slurm was built without munge."""
    plugins = installation.plugins
    if plugins is not None and not (plugins / _PLUGIN).is_file():
        raise NoSlurm(
            f"there is no {_PLUGIN} in {plugins}; build Slurm with munge (apt install libmunge-dev)"
        )
    return installation.helper("munged", REMEDY)


def munge_if_installed(daemons: Daemons) -> Path | None:
    try:
        return munge(daemons)
    except NoSlurm:
        return None


def of_nodes(munge_socket: Path | None) -> Authentication:
    """How nodes authenticate their messages, as the daemons do."""
    return Stated() if munge_socket is None else Munge(str(munge_socket))


def credential_used(installation: Installation) -> str:
    """A sentence on what `munge_if_installed` finds."""
    try:
        program = munged(installation)
    except NoSlurm as error:
        return (
            f"Messages are not authenticated (auth/none), so that users of this computer can send messages "
            f"to the controller while it runs: {error}"
        )
    return f"Messages are authenticated by munge ({program}) with a key of each run"
