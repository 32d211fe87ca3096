"""Compiled code on disk: one file for each function, named for all that its machine code depends on."""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from tempfile import mkstemp
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import numba
import numpy as np
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from scheduler.compiled.items import IS_CHECKED

config: Any = numba.config
SCHEDULER = Path(__file__).parent.parent
COMPILER = (sys.implementation.cache_tag, numba.__version__, llvmlite.__version__, np.__version__, IS_CHECKED)
IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+)?import[ \t]+(\([^)]*\)|.*)", re.MULTILINE)
CHECKSUM_BYTES = hashlib.sha256().digest_size


class Kept:
    """The machine code of a function, kept for the next process.

    The name of a file is a digest of the signature, the processor, the compiler, and all sources whose
    functions and constants the code can contain, so code that is found is up to date. The file begins with a
    checksum: a damaged one counts as missing, as does one of another user, who could make this one run it.
    Numba's own cache looks at the source of the function alone, and raises where its index is damaged.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.folders = folders(Path(function.__code__.co_filename))
        module, name = function.__module__, function.__qualname__
        closure = [cell.cell_contents for cell in function.__closure__ or ()]
        sources = fingerprint(Path(function.__code__.co_filename).parent, _package_of(function))
        self._name = re.sub(r"[^\w.]", "", f"{module.rpartition('.')[2]}.{name}")
        self._key = (sources, module, name, function.__code__.co_code, dumps(closure))  # type: ignore[no-untyped-call]

    def load_overload(self, signature: Any, target: Any) -> Any:
        """None if the code has to be compiled. Loading needs far less of Numba than compiling does."""
        name = self._file_name(signature, target.codegen())
        for folder in self.folders:
            if (content := _read(folder / name)) is not None:
                return CompileResult._rebuild(target, *pickle.loads(content))  # type: ignore[no-untyped-call]
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep it in the first folder that can be written."""
        if not result.library.has_dynamic_globals:
            content = dumps(result._reduce())  # type: ignore[no-untyped-call]
            name = self._file_name(signature, result.codegen)
            any(_write(folder / name, content) for folder in self.folders)

    def _file_name(self, signature: Any, codegen: Any) -> str:
        key = repr((self._key, str(signature), codegen.magic_tuple()))
        return f"{self._name}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.bin"


def folders(source: Path) -> list[Path]:
    """NUMBA_CACHE_DIR, or `__pycache__` beside the source and the user's cache folder."""
    if config.CACHE_DIR:
        return [Path(config.CACHE_DIR)]
    beside, users = source.parent / "__pycache__", os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    user = Path(os.path.expanduser(users), "sil")
    return [folder / "compiled" for folder in (beside, user) if folder.is_absolute()]


def is_writable(folder: Path) -> bool:
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return os.access(folder, os.W_OK)


def is_own(path: Path) -> bool:
    """Whether a file belongs to this user, to root, or to whom this package belongs, and is a regular one.
    Raises OSError."""
    found = path.stat()
    return stat.S_ISREG(found.st_mode) and found.st_uid in (0, os.getuid(), SCHEDULER.stat().st_uid)


def _read(path: Path) -> bytes | None:
    try:
        if not is_own(path):
            return None
        data = path.read_bytes()
    except OSError:
        return None
    content = data[CHECKSUM_BYTES:]
    return content if hashlib.sha256(content).digest() == data[:CHECKSUM_BYTES] else None


def _write(path: Path, content: bytes) -> bool:
    """Other processes may do the same at the same time."""
    new = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, new = mkstemp(dir=path.parent)
        with open(handle, "wb") as file:
            file.write(hashlib.sha256(content).digest() + content)
        os.chmod(new, 0o644)  # for all users of an installation
        os.replace(new, path)
    except OSError:
        if new is not None:
            Path(new).unlink(missing_ok=True)
        return False
    return True


@cache
def fingerprint(folder: Path, package: str) -> str:
    """Of the compiler, and of all sources whose functions and constants compiled functions of a folder can
    contain: those of the folder, the kernels of this package, and what these import of their own packages."""
    digest, seen = hashlib.sha256(repr(COMPILER).encode()), set[Path]()
    to_read = [(source, package) for source in folder.glob("*.py")]
    for kernels in ("compiled/*.py", "*/kernels/**/*.py"):
        to_read += [(source, _dotted(source.parent)) for source in SCHEDULER.glob(kernels)]
    while to_read:
        source, its_package = to_read.pop()
        if source not in seen:
            seen.add(source)
            to_read += _imported(source, its_package)
    for source in sorted(seen):
        digest.update(source.name.encode() + _text(source))
    return digest.hexdigest()


def _package_of(function: Callable[..., Any]) -> str:
    return function.__globals__.get("__package__") or ""


def _dotted(folder: Path) -> str:
    return ".".join(folder.relative_to(SCHEDULER.parent).parts)


@cache
def _text(source: Path) -> bytes:
    return source.read_bytes()


@cache
def _imported(source: Path, package: str) -> list[tuple[Path, str]]:
    """The sources of `scheduler` and of a file's own package that it imports, each with its package."""
    found = list[tuple[Path, str]]()
    for match in IMPORT.finditer(_text(source).decode(errors="replace")):
        base, names = match[1] or "", re.findall(r"[\w.]+", match[2])
        modules = [base, *(f"{base}.{name}" for name in names)] if base else names
        for name in modules:
            found += _source(resolve_name(name, package) if name.startswith(".") else name, package)
    return found


def _source(name: str, importer: str) -> Iterable[tuple[Path, str]]:
    top, *rest = name.split(".")
    if top in ("scheduler", importer.partition(".")[0]) and (made := sys.modules.get(top)) is not None:
        for folder in getattr(made, "__path__", ()):
            path = Path(folder, *rest)
            if path.with_suffix(".py").is_file():
                yield path.with_suffix(".py"), name.rpartition(".")[0]
            elif (path / "__init__.py").is_file():
                yield path / "__init__.py", name
