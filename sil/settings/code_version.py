"""Which code this is: the version of the package, and hashes over sources."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import scheduler
import site_db
from sil.settings.files import FIXTURES

SCHEDULER, SITE_DB = (Path(package.__path__[0]) for package in (scheduler, site_db))
TESTBED = Path(__file__).parent.parent


def package_version() -> str:
    try:
        return version("sil-testbed")
    except PackageNotFoundError:
        return "not installed"


def source_hash(folder: Path) -> str:
    """Hash over the Python sources in a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
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
    digest = hashlib.sha256()
    for library in ("numpy", "scipy", "numba", "polars"):
        digest.update(f"{library} {version(library)}".encode())
    digest.update(all_sources().encode())
    for path in sorted(FIXTURES.rglob("*.toml")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
