"""The compiled library of the clock: that of the installed wheel, or built by the system's C compiler when
it is first used, and kept."""

from __future__ import annotations

import ctypes
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


@cache
def built() -> Path:
    """The library: the shipped one, or compiled unless it is kept from before. Raises UserError."""
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        raise UserError(
            f"Slurm's controller gets simulated time on Linux with the GNU C library only, and this is "
            f"{platform.system()} {platform.libc_ver()[0]}; use a container of Debian or Ubuntu"
        )
    shipped = SOURCES.parent / shipped_name()
    if _loads(shipped):  # it does not if it needs a newer C library than this computer has
        return shipped
    compiler = _compiler()
    state = os.stat(compiler)
    made_with = (compiler, state.st_size, state.st_mtime_ns, platform.machine(), OPTIONS)
    name = f"clock-{_digest(*made_with)}.so"
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folders = [SOURCES.parent / "__pycache__", user / "sil"]
    for folder in folders:
        if _loads(folder / name):
            return folder / name
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            temporary = Path(mkdtemp(prefix="clock-", dir=folder))
        except OSError:
            continue
        try:
            _compile(compiler, temporary / name)
            if _loads(temporary / name):
                (temporary / name).replace(folder / name)  # others may do the same at the same time
                return folder / name
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    raise UserError(
        f"the clock of Slurm's controller cannot be kept: no library can be written to and loaded from "
        f"{' or '.join(map(str, folders))}; set XDG_CACHE_HOME to a folder where that is allowed"
    )


def shipped_name() -> str:
    """That of a library of these sources in a wheel for this kind of computer, beside this module."""
    return f"clock-{_digest(platform.machine(), OPTIONS)}.so"


def compile_to_ship(target: Path) -> None:
    """Raises UserError."""
    _compile(_compiler(), target)


def _loads(path: Path) -> bool:
    """Not if there is none, it belongs to another user, or it is in a file system from which no code may
    run."""
    from scheduler.compiled.kept import is_own  # loads the compiler, which replays have loaded before

    try:
        if not is_own(path):
            return False
        ctypes.CDLL(str(path))
    except OSError:
        return False
    return True


def _compiler() -> str:
    for name in COMPILERS:
        if (found := shutil.which(name)) is not None:
            return os.path.realpath(found)
    raise UserError(
        "the clock of Slurm's controller is compiled when it is first used, and there is no C compiler; "
        "install one (apt install gcc libc6-dev)"
    )


def _digest(*made_with: object) -> str:
    """Of the sources, and what they are compiled with."""
    key = hashlib.sha256(repr(made_with).encode())
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
        raise UserError(
            f"{compiler} cannot compile the clock of Slurm's controller ({first}); install the C "
            f"library's headers (apt install libc6-dev)"
        )
