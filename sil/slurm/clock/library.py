"""The compiled library of the clock: built by the system's C compiler when it is first used, and kept."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from scheduler import UserError

SOURCES = Path(__file__).parent / "native"
COMPILERS = ("cc", "gcc", "clang")
OPTIONS = ("-std=gnu11", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra")


class NoClock(UserError):
    """Daemons cannot be given simulated time on this computer. The message says why, and the remedy."""


@cache
def built() -> Path:
    """The library, compiled unless it is kept from before. Raises NoClock."""
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        raise NoClock(
            f"Slurm's controller gets simulated time on Linux with the GNU C library only, and this is "
            f"{platform.system()} {platform.libc_ver()[0]}; use a container of Debian or Ubuntu"
        )
    compiler = _compiler()
    name = f"clock-{_fingerprint(compiler)}.so"
    folders = _folders()
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            temporary = Path(mkdtemp(prefix="clock-", dir=folder))
        except OSError:
            continue
        try:
            _compile(compiler, temporary / name)
            (temporary / name).replace(folder / name)  # others may do the same at the same time
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return folder / name
    raise NoClock(
        f"the clock of Slurm's controller cannot be kept: neither {' nor '.join(map(str, folders))} can be "
        f"written; set XDG_CACHE_HOME to a folder that can"
    )


def _folders() -> list[Path]:
    """Where the library is kept: beside its sources as other compiled code, or the user's cache folder."""
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return [SOURCES.parent / "__pycache__", user / "sil"]


def _compiler() -> str:
    for name in COMPILERS:
        if (found := shutil.which(name)) is not None:
            return os.path.realpath(found)
    raise NoClock(
        "the clock of Slurm's controller is compiled when it is first used, and there is no C compiler; "
        "install one (apt install gcc libc6-dev)"
    )


def _fingerprint(compiler: str) -> str:
    state = os.stat(compiler)
    key = hashlib.sha256(
        repr((compiler, state.st_size, state.st_mtime_ns, platform.machine(), OPTIONS)).encode()
    )
    for source in sorted(SOURCES.glob("*.[ch]")):
        key.update(source.name.encode() + source.read_bytes())
    return key.hexdigest()[:16]


def _compile(compiler: str, target: Path) -> None:
    sources = [str(path) for path in sorted(SOURCES.glob("*.c"))]
    done = subprocess.run(
        [compiler, *OPTIONS, "-o", str(target), *sources], capture_output=True, text=True, check=False
    )
    if done.returncode:
        first = next(
            (line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:200]
        )
        raise NoClock(
            f"{compiler} cannot compile the clock of Slurm's controller ({first}); install the C "
            f"library's headers (apt install libc6-dev)"
        )
