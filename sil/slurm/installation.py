"""Slurm on this computer: its executables, their version, and what proves which they are."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from scheduler import UserError, printable

SUPPORTED = ("22.05",)
"""Releases whose protocol and whose waiting are known; each is to be tried before it is added."""
PACKAGES = "slurmctld slurm-wlm-basic-plugins slurm-client"
REMEDY = f"apt install {PACKAGES}"
PLUGINS = "apt install slurm-wlm-basic-plugins slurm-wlm-plugins"
_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/opt/slurm/sbin", "/usr/bin", "/usr/local/bin", "/opt/slurm/bin")
"""Where programs are, besides PATH, which has no sbin for most users."""


class NoSlurm(UserError):
    """Slurm is missing here, or of a release that is not supported. The message has the remedy."""


@dataclass(frozen=True)
class Installation:
    """An installed Slurm: its controller, and its release like 22.05.8."""

    controller: Path
    release: str

    @cached_property
    def sha256(self) -> str:
        """Of the controller's executable."""
        with self.controller.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @cached_property
    def package(self) -> str | None:
        """The distribution's package with its version, like "slurmctld 22.05.8-4+deb12u3"; None if it is
        of none."""
        owner = _output(["dpkg-query", "--search", str(self.controller)]).partition(":")[0]
        if owner:
            return _output(["dpkg-query", "--show", "--showformat=${Package} ${Version}", owner]) or None
        return (
            _output(
                [
                    "rpm",
                    "--query",
                    "--file",
                    "--queryformat=%{NAME} %{VERSION}-%{RELEASE}",
                    str(self.controller),
                ]
            )
            or None
        )

    def program(self, name: str) -> Path:
        """Another program of Slurm, like scontrol. Raises NoSlurm."""
        return program(name, REMEDY)


def program(name: str, remedy: str) -> Path:
    """An installed program. Raises NoSlurm, with the remedy."""
    path = os.pathsep.join((os.environ.get("PATH", ""), *_FOLDERS))
    found = shutil.which(name, path=path)
    if found is None:
        raise NoSlurm(f"{name} is not installed, or not in PATH; install it ({remedy})")
    return Path(found)


@cache
def installed() -> Installation:
    """The Slurm of this computer. Raises NoSlurm."""
    try:
        # Debian's alternative `slurmctld` may be the emulator, whose front end is another one.
        found = program("slurmctld-wlm", REMEDY)
    except NoSlurm:
        found = program("slurmctld", REMEDY)
    controller = found.resolve()
    says = _output([str(controller), "-V"])
    match = re.search(r"\b(\d+\.\d+)\.\d+\S*", says)
    if match is None:
        raise NoSlurm(
            f"{controller} -V says '{printable(says)}' instead of its release; install it again ({REMEDY})"
        )
    if match[1] not in SUPPORTED:
        raise NoSlurm(
            f"{controller} is of release {match[0]}, which is not supported; install "
            f"{' or '.join(SUPPORTED)}, for example in a container of Debian 12 ({REMEDY})"
        )
    return Installation(controller, match[0])


def _output(command: Sequence[str]) -> str:
    """What a program prints; empty if it fails or is not there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
