"""Files that experiments and sites are found in, those that come with the package, and which code this is."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

import scheduler
import site_db
from scheduler.messages import UserError, meant
from sil.usable import library_versions
from site_db.files.input_errors import InvalidFile

_PACKAGE = Path(__file__).parent.parent
_INSTALLED = _PACKAGE / "fixtures"
FIXTURES = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent / "fixtures"
"""Inside the installed package, or at the top of a checkout."""
LOG = ".swf"
RUN_BY = {"experiments": "sil run", "plans": "sil plan"}


def module_spec(name: str, folder: str | None) -> ModuleSpec | None:
    """How a process that looks for modules in `folder` after all others finds one without a dot in its name.
    Imports nothing."""
    found = find_spec(name)
    return found if found is not None or folder is None else PathFinder.find_spec(name, [folder])


def built_in(kind: str) -> dict[str, Path]:
    """Name and path of the files of one kind ("experiments", "sites") that come with the package."""
    return {path.stem: path for path in sorted((FIXTURES / kind).glob("*.toml"))}


def is_built_in(path: Path) -> bool:
    """Whether it is one of the files that come with the package."""
    return path.resolve().is_relative_to(FIXTURES.resolve())


def paths(given: str | Path | Iterable[str | Path] | None, folder: Path = Path()) -> list[Path]:
    """Files of a setting, of which one may stand for itself; relative ones start at `folder`."""
    return [folder / name for name in ([given] if isinstance(given, str | Path) else given or ())]


def named(name: str, folder: Path) -> Path:
    """The file that another file in `folder` names. Raises InvalidFile for a pipe, for which a command might
    wait without a limit."""
    path = folder / name
    if path.exists() and not path.is_file():
        raise InvalidFile(f"{path}: this is not a regular file; expected one, since another file names it")
    return path


def find(name: str, kind: str, folder: Path) -> Path:
    """The file that `name` means: a path (relative ones start at `folder`), or the name of a built-in one.

    Raises InvalidFile where it is neither.
    """
    path = folder / name
    if path.is_file():
        if LOG in path.suffixes:
            raise InvalidFile(f"{path} is a log of jobs; replay it with: sil replay {path}")
        return path
    known = built_in(kind)
    if name in known:
        return known[name]
    for other, command in RUN_BY.items():
        if other != kind and name in built_in(other):
            raise InvalidFile(f"'{name}' is one of the built-in {other}; run it with: {command} {name}")
    elsewhere = "; a site in a database is named with --site DATABASE#SITE" if kind == "sites" else ""
    hint = meant(name, known) or f"built in are {', '.join(known)}{elsewhere}"
    raise InvalidFile(f"there is no file {path}, and no built-in of that name; {hint}")


def copy_examples(folder: Path) -> list[Path]:
    """Copy all examples and the schemas of their files into a folder; the paths of the copies. Files that are
    there and equal stay. Raises UserError, before anything is copied if a file would be replaced."""
    sources = [path for path in sorted(FIXTURES.rglob("*")) if path.is_file()]
    copies = {source: folder / source.relative_to(FIXTURES) for source in sources}
    for source, copy in copies.items():
        if copy.exists() and copy.read_bytes() != source.read_bytes():
            raise UserError(f"{copy} exists and is another file; name another folder, or remove it")
    try:
        for source, copy in copies.items():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
    except OSError as error:
        raise UserError(f"the folder {folder} cannot be written: {error.strerror}") from None
    return list(copies.values())


SCHEDULER, SITE_DB = (Path(package.__path__[0]) for package in (scheduler, site_db))
TESTBED = Path(__file__).parent.parent


def source_hash(folder: Path) -> str:
    """Hash over the sources in a folder, with the types of those that are compiled."""
    digest, root = hashlib.sha256(), str(folder)
    found = (os.path.join(place, name) for place, _, names in os.walk(root) for name in names)
    for path in sorted(path for path in found if path.endswith((".py", ".pxd"))):
        with open(path, "rb") as file:
            digest.update(path[len(root) + 1 :].encode() + b"\0" + file.read() + b"\0")
    return digest.hexdigest()[:16]


@cache
def scheduler_source() -> str:
    """Hash over the scheduler package: the same code under test gives the same."""
    return source_hash(SCHEDULER)


@cache
def all_sources() -> str:
    """Hash over the sources of all three packages."""
    return scheduler_source() + source_hash(SITE_DB) + source_hash(TESTBED)


@cache
def code_and_data() -> str:
    """Hash over all code, libraries and built-in data that results depend on."""
    digest = hashlib.sha256(f"{library_versions()}{all_sources()}".encode())
    for path in sorted(FIXTURES.rglob("*.toml")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
