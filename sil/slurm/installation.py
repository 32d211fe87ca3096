"""The Slurm installation on this computer: its executables, their release and their digests; and the runtime
environment of its daemons: a temporary directory, loopback ports, and a user."""

from __future__ import annotations

import getpass
import hashlib
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from scheduler.messages import UserError, printable
from sil.slurm import entering
from sil.slurm.protocol.releases import Release, UnsupportedVersion

PACKAGES = "slurmctld slurm-wlm-basic-plugins slurm-client"
REMEDY = f"apt install {PACKAGES}"
PLUGINS = "apt install slurm-wlm-basic-plugins slurm-wlm-plugins"
LISTED = "packages.txt"
"""The file, in a root that `sil slurm install` has made, with a package and its version on each line."""
_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/opt/slurm/sbin", "/usr/bin", "/usr/local/bin", "/opt/slurm/bin")
"""Where programs are, besides PATH, which has no sbin for most users."""
_CONTROLLERS = ("slurmctld-wlm", "slurmctld")
"""The names of the controller, in this order in each folder: Debian's alternative `slurmctld` may be the
emulator, which has another front end."""
_LIBRARY = "libslurmfull.so"
"""The library of all its programs, in the folder of the plug-ins."""
_NONE: Mapping[str, str] = MappingProxyType({})


class NoSlurm(UserError):
    """Slurm is missing here, or of a release that is not supported. The message has the remedy."""


class SlurmFolders(NamedTuple):
    """Where Slurm is: below a prefix with sbin, bin and lib, or within a root directory with the /usr of
    another suite or distribution; else in PATH and the usual folders."""

    prefix: Path | None = None
    root: Path | None = None

    @property
    def folders(self) -> list[Path]:
        """The folders of Slurm's controller."""
        if self.root is not None:
            return [self.root / "usr" / name for name in ("sbin", "bin")]
        if self.prefix is not None:
            return [self.prefix / name for name in ("sbin", "bin")]
        return _search_path()

    @property
    def remedy(self) -> str:
        if self.root is not None:
            return f"sil slurm install SUITE {self.root}"
        return REMEDY if self.prefix is None else f"make install with --prefix={self.prefix}"


ANYWHERE = SlurmFolders()
VARIABLE = "SIL_SLURM"
"""Environment variable: the place of the Slurm that is meant without one, as in the name of a scheduler, like
`root=/srv/trixie`."""


@dataclass(frozen=True)
class Installation:
    """An installed Slurm: its controller, its release, and where it is."""

    controller: Path
    release: Release
    place: SlurmFolders = ANYWHERE

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 sum of the controller's executable."""
        with self.controller.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @cached_property
    def package(self) -> str | None:
        """The distribution's package with its version, like "slurmctld 22.05.8-4+deb12u3"; None if it is
        of none."""
        if self.place.root is not None:
            listed = self.place.root / LISTED
            lines = listed.read_text().splitlines() if listed.is_file() else []
            return next((line for line in lines if line.startswith("slurmctld ")), None)
        path = str(self.controller.resolve())
        if owner := _output(["dpkg-query", "--search", path]).partition(":")[0]:
            return _output(["dpkg-query", "--show", "--showformat=${Package} ${Version}", owner]) or None
        layout = "--queryformat=%{NAME} %{VERSION}-%{RELEASE}"
        return _output(["rpm", "--query", "--file", layout, path]) or None

    @cached_property
    def plugins(self) -> Path | None:
        """The folder of the plug-ins below a prefix, which need not be where Slurm was built for."""
        prefix = self.place.prefix
        found = (
            sorted(prefix.glob(f"{lib}/**/{_LIBRARY}")) for lib in ("lib64", "lib") if prefix is not None
        )
        return next((paths[0].parent for paths in found if paths), None)

    def program(self, name: str, remedy: str = "") -> Path:
        """Another program of Slurm, like scontrol, of the same installation. Raises NoSlurm, with the
        remedy."""
        folder = self.controller.parent
        folders = (folder, folder.with_name("bin"), folder.with_name("sbin"))
        return _found([name], dict.fromkeys(folders), self._remedy(remedy))

    def helper(self, name: str, remedy: str) -> Path:
        """A program that Slurm uses, like munged: of this computer, unless Slurm is in a root of its own.
        Raises NoSlurm."""
        folders = self.place.folders if self.place.root is not None else _search_path()
        return _found([name], folders, self._remedy(remedy))

    def _remedy(self, packages: str) -> str:
        return packages if packages and self.place == ANYWHERE else self.place.remedy

    def inside(self, program: Path) -> Path:
        """The path under which a program finds itself when it runs."""
        root = self.place.root
        if root is None or not program.is_relative_to(root):
            return program
        return Path("/") / program.relative_to(root)

    def check_loads(self, library: Path) -> None:
        """Raise NoSlurm if programs in a root cannot load a library of this computer: it is below /usr, which
        they do not see, or was compiled for a later C library."""
        if self.place.root is None:
            return
        command, variables = self.invoked(["/bin/sh", "-c", ":"], {"LD_PRELOAD": str(library)})
        if said := subprocess.run(command, env=variables, capture_output=True, text=True, check=False).stderr:
            raise NoSlurm(
                f"the Slurm in {self.place.root} cannot load {library}: {printable(said.strip())}; install "
                f"the testbed outside of /usr, or unpack a suite with this C library or a later one"
            )

    def invoked(
        self, command: Sequence[object], variables: Mapping[str, str] = _NONE
    ) -> tuple[list[str], dict[str, str]]:
        """The words and the variables with which a command runs. Of the variables of this process, others,
        like SLURM_CLUSTERS, would lead to the operator's cluster."""
        root = self.place.root
        if root is None:
            inherited = {key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH") if key in os.environ}
            if self.plugins is not None:
                others = inherited.get("LD_LIBRARY_PATH")
                inherited["LD_LIBRARY_PATH"] = ":".join(filter(None, (str(self.plugins), others)))
            return [*map(str, command)], {**inherited, **variables}
        variables = {"PATH": "/usr/sbin:/usr/bin", **variables}
        words = [f"{name}={value}" for name, value in variables.items()]
        program, *rest = command
        enter = [sys.executable, "-I", "-S", entering.__file__, str(root)]
        return [*enter, *words, "--", str(self.inside(Path(str(program)))), *map(str, rest)], {}


@cache
def installed(place: SlurmFolders = ANYWHERE) -> Installation:
    """The Slurm that is there. Raises NoSlurm."""
    if place == ANYWHERE and (stated := os.environ.get(VARIABLE, "")):
        kind, _, folder = stated.partition("=")
        if kind not in SlurmFolders._fields or not folder:
            raise NoSlurm(f"{VARIABLE} is '{kind}={folder}'; expected prefix=FOLDER or root=FOLDER")
        place = SlurmFolders(**{kind: Path(folder)})
    controller = _found(_CONTROLLERS, place.folders, place.remedy)
    if place == ANYWHERE:
        controller = controller.resolve()
    found = Installation(controller, Release(0, 0, ""), place)
    command, variables = found.invoked([controller, "-V"])
    says = _output(command, variables, or_error=True)
    release = Release.of(says)
    if entering.FAILED in says:
        raise NoSlurm(
            f"{printable(says)}; a root needs a mount namespace: permit user namespaces, run as root, or "
            f"use a build of your own with 'slurm(prefix=FOLDER)'"
        )
    if release is None:
        raise NoSlurm(
            f"{controller} -V says '{printable(says)}' instead of its release; install it again "
            f"({place.remedy})"
        )
    try:
        _ = release.protocol
    except UnsupportedVersion as error:
        raise NoSlurm(f"{controller}: {error}") from None
    return Installation(controller, release, place)


def _search_path() -> list[Path]:
    return [Path(folder) for folder in (*os.get_exec_path(), *_FOLDERS)]


def _found(names: Sequence[str], folders: Iterable[Path], remedy: str) -> Path:
    """The first of these programs in the first folder that has one. Raises NoSlurm, with the remedy."""
    folders = [*folders]
    for folder in folders:
        for name in names:
            if (path := shutil.which(name, path=folder)) is not None:
                return Path(path)
    where = "PATH" if folders == _search_path() else " and ".join(map(str, folders))
    raise NoSlurm(f"{names[-1]} is not installed, or not in {where}; install it ({remedy})")


def _output(
    command: Sequence[str], environment: Mapping[str, str] | None = None, or_error: bool = False
) -> str:
    """What a program prints; empty if it fails or is not there, or else what it says then."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=environment
        )
    except OSError as error:
        return str(error) if or_error else ""
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip() if or_error else ""


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
    """A free port of loopback, which no other process gets while the socket is open; a program that sets
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
