"""Whether our packages can be used: modules of others may hide them, and they may not be compiled."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

OURS = "sil-testbed"
PACKAGES = Path(__file__).parent.parent
"""The folder of our packages."""
MARKS = {"scheduler": "The scheduler a site would run", "site_db": ""}
"""How the docstrings of our packages other than `sil` begin."""


@cache
def unusable() -> str | None:
    """The error message if commands cannot run, or None."""
    if (message := shadowed()) is None:
        try:
            import scheduler.core  # noqa: F401
        except ImportError as error:
            message = str(error)
    return message


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
