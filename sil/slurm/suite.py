"""Slurm of another suite of the distribution, unpacked into a folder by apt: nothing is installed, and root
is not needed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from scheduler.messages import UserError, printable
from sil.slurm.installation import LISTED, Installation, SlurmFolders, installed

PACKAGES = (
    *("slurmctld", "slurm-client", "slurm-wlm-basic-plugins", "slurmdbd", "slurm-wlm-mysql-plugin"),
    *("mariadb-server-core", "mariadb-client-core", "munge", "bash", "dash", "coreutils", "sed", "libc-bin"),
)
"""Slurm, its database, its credential, and what their scripts need."""
_MERGED = ("bin", "sbin", "lib", "lib64")
"""Links into usr, as on each current system: some packages have files there."""
_SOURCES = Path("/etc/apt")
_RELEASE = Path("/etc/os-release")
_OPTIONS = Path(__file__).with_name("suite.apt.conf")
"""The options of apt."""
_ENTRY = {
    ".list": re.compile(
        r"^(deb\s+(?:\[[^\]]*\]\s+)?(?P<mirror>\S+)\s+)(?P<suite>\S+)(?P<rest>\s.*)$", re.MULTILINE
    ),
    ".sources": re.compile(
        r"((?=(?:.+\n)*?URIs:\s*(?P<mirror>\S+))(?:^\S.*\n)*^Suites:[ \t]*)(?P<suite>.*)(?P<rest>(?:\n.+)*)",
        re.MULTILINE | re.IGNORECASE,
    ),
}
"""An entry in each form of apt's sources, with what is before and after its suites."""
_UNPACK = ("tar", "-x", "--keep-directory-symlink", "--no-same-owner", "--exclude=./usr/share/doc")


def unpack(suite: str, folder: Path) -> Installation:
    """Unpack Slurm of a suite, like trixie, into a folder, which is made. Raises UserError and NoSlurm."""
    for program in ("apt-get", "dpkg-deb", "tar"):
        if shutil.which(program) is None:
            raise UserError(
                f"{program} is not on this computer; suites are unpacked on Debian and its relatives only: "
                f"give a Slurm that you have built with 'slurm(prefix=FOLDER)'"
            )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is there and not empty; remove it, or name another folder")
    if not re.fullmatch(r"[\w.+-]+", suite):
        raise UserError(f"'{suite}' is no name of a suite; expected one like trixie or sid")
    folder = Path(os.path.realpath(folder))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _make(suite, folder)
    except OSError as error:
        raise UserError(f"{folder} cannot be made: {error.strerror}; name another folder") from None
    return installed(SlurmFolders(root=folder))


def _make(suite: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as work:
        packages, root = _downloaded(suite, Path(work)), Path(work) / "root"
        (root / "usr" / "local").mkdir(parents=True)
        for name in _MERGED:
            (root / "usr" / name).mkdir()
            (root / name).symlink_to(f"usr/{name}")
        listed = [_unpacked(package, root) for package in packages]
        (root / LISTED).write_text("".join(f"{line}\n" for line in sorted(listed)))
        if not (root / "usr/bin/sh").exists():  # which a script of dash's package links
            (root / "usr/bin/sh").symlink_to("dash")
        root.rename(folder)


def _downloaded(suite: str, work: Path) -> list[Path]:
    extension, source = _source(suite)
    sources = work / f"suite{extension}"
    sources.write_text(source)
    for name in ("lists/partial", "archives/partial"):
        (work / name).mkdir(parents=True)
    (work / "status").touch()
    options = work / "apt.conf"
    options.write_text(_OPTIONS.read_text().format(sources=sources, work=work))
    apt = ["apt-get", "-c", str(options), "-q"]
    _run(
        [*apt, "update"], f"there is no suite {suite} at this computer's mirror, or the mirror is not reached"
    )
    get = ("install", "-y", "--download-only", "--no-install-recommends", *PACKAGES)
    _run([*apt, *get], f"the packages of Slurm in {suite} cannot be downloaded")
    return sorted((work / "archives").glob("*.deb"))


def _source(suite: str) -> tuple[str, str]:
    """Apt's sources of this computer's own suite, with another one in its place, and the extension of such a
    file; all of the mirror that has the component main. Raises UserError."""
    about = _RELEASE.read_text() if _RELEASE.is_file() else ""
    own = re.search(r"^VERSION_CODENAME=(\S+)", about, re.MULTILINE)
    for path in (_SOURCES / "sources.list", *sorted((_SOURCES / "sources.list.d").glob("*"))):
        entry = _ENTRY.get(path.suffix)
        entries = [
            found
            for found in (entry.finditer(path.read_text()) if entry is not None and path.is_file() else ())
            if own is not None and own[1] in found["suite"].split() and "\nEnabled: no" not in found[0]
        ]
        mirror = next((found["mirror"] for found in entries if re.search(r"\bmain\b", found["rest"])), None)
        if mirror is not None:
            texts = (f"{x[1]}{suite}{x['rest']}\n" for x in entries if x["mirror"] == mirror)
            return path.suffix, "\n".join(texts)
    raise UserError(
        f"in {_SOURCES} there is no source of this computer's own suite ({own[1] if own else 'unknown'}), at "
        f"whose mirror another suite could be"
    )


def _unpacked(package: Path, root: Path) -> str:
    """Unpack a package. Returns its name and version."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as files:
        _run([*_UNPACK, "-C", str(root)], f"{package.name} cannot be unpacked", files.stdout)
    return _run(["dpkg-deb", "-W", "--showformat=${Package} ${Version}", str(package)], package.name)


def _run(command: Sequence[str], what: str, given: IO[bytes] | None = None) -> str:
    done = subprocess.run(
        command, capture_output=True, check=False, stdin=subprocess.DEVNULL if given is None else given
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").splitlines()
        errors = [line[2:].strip() for line in said if line.startswith("E:")] or said or ["no reason"]
        raise UserError(f"{what}: {command[0]} says '{printable(errors[0])}'")
    return done.stdout.decode(errors="replace")
