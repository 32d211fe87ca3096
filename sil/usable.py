"""The versions of our packages and of libraries, and whether ours can be used: modules of others may hide
them, and they may not be compiled."""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

OURS = "sil-testbed"
VERSION = "0.3.0"
PACKAGES = Path(__file__).parent.parent
"""The folder of our packages."""
MARKS = {"scheduler": "The scheduler a site would run", "site_db": ""}
"""How the docstrings of our packages other than `sil` begin."""


def library_versions() -> dict[str, str]:
    """The versions of the libraries that results depend on."""
    from importlib.metadata import version  # loads the parser of e-mail

    return {name: version(name) for name in ("numpy", "scipy", "polars")}


@cache
def unusable() -> str | None:
    """The error message if commands cannot run, or None."""
    if (message := shadowed()) is None:
        try:
            import scheduler.core  # noqa: F401
        except ImportError as error:
            return str(error)
        message = changed_since_compiled()
    return message


def changed_since_compiled(root: Path = PACKAGES) -> str | None:
    """The error message for a module of a clone that is not what its machine code was compiled from, or None.
    Where the user cannot compile, as in a clone of somebody else, times of files say little."""
    if not (root / "hatch_build.py").exists():
        return None
    for types in (file for name in ("scheduler", "sil") for file in (root / name).rglob("core/*.pxd")):
        source, code = types.with_suffix(".py"), types.with_suffix(EXTENSION_SUFFIXES[0])
        changed_s = max(source.stat().st_mtime, types.stat().st_mtime)
        if os.access(types.parent, os.W_OK) and (not code.exists() or code.stat().st_mtime < changed_s):
            remedy = f"{sys.executable} {root / 'hatch_build.py'}"
            return f"{source} has changed since it was compiled; compile it: {remedy}"
    return None


def shadowed(installed_beside: Path = PACKAGES) -> str | None:
    """The error message for a package or a file that hides one of `sil-testbed`, or None.

    Ours are installed beside `sil`; what has the same name elsewhere on the path hides them, a package
    installed into the same folder overwrites their files.
    """
    for name, mark in MARKS.items():
        expected = installed_beside / name / "__init__.py"
        found = find_spec(name)
        origin = Path(found.origin) if found is not None and found.origin else None
        if origin != expected or mark not in expected.read_text(encoding="utf-8"):
            return _message(name, origin)
    return None


def _message(name: str, origin: Path | None) -> str:
    from importlib.metadata import packages_distributions  # loads the parser of e-mail

    if origin is not None and origin.name != "__init__.py":
        return f"the file {origin} hides the package `{name}` of {OURS}; give it another name"
    owners = [owner for owner in packages_distributions().get(name, ()) if owner != OURS]
    where = f"the package `{name}` in {origin.parent if origin else 'an unknown place'}"
    if not owners:
        return f"{where} hides that of {OURS}; give it another name"
    whose = " and ".join(dict.fromkeys(owners))
    remedy = f"install {OURS} in a virtual environment of its own"
    return f"{where} belongs to {whose} and hides that of {OURS}; {remedy}"
