"""Sets up the runtime environment of Slurm's daemons: a temporary directory, loopback ports, and a user."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scheduler import UserError

_MEMORY = "/dev/shm"
_REMOVE = 'cat >/dev/null; for n in 1 2 3 4 5 6 7 8 9; do rm -rf "$0"; [ -e "$0" ] || exit; sleep 0.2; done'
"""A script that removes a directory when its input ends; daemons may write until they are ended, too."""


@contextmanager
def private_folder() -> Iterator[Path]:
    """A directory in memory, or else a temporary one, which is removed at the end, also if this process is
    killed."""
    in_memory = os.access(_MEMORY, os.W_OK)
    folder = Path(tempfile.mkdtemp(prefix="sil-slurm-", dir=_MEMORY if in_memory else None))
    with subprocess.Popen(
        ["/bin/sh", "-c", _REMOVE, str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    ):  # fmt: skip
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def reserved_port() -> tuple[socket.socket, int]:
    """A free port of loopback, which nobody else is given while the socket is open; a program that sets
    SO_REUSEADDR may listen at it. Raises UserError."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", 0))
    except OSError as error:
        found.close()
        raise UserError(
            f"there is no free port at 127.0.0.1 for Slurm's controller ({error.strerror}); end other "
            f"programs, or run fewer controllers at a time (--workers)"
        ) from None
    return found, int(found.getsockname()[1])


def listening() -> Iterator[tuple[str, int]]:
    """The addresses, as the kernel writes them, and ports of this computer at which something listens."""
    for name in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/net/{name}") as table:
            for row in table:
                _, local, _, state, *_ = row.split()
                if state == "0A":
                    address, _, port = local.rpartition(":")
                    yield address, int(port, 16)


def listens(port: int) -> bool:
    return any(found == port for _, found in listening())


def calling_user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return getpass.getuser()
