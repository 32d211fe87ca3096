"""Where experiments and sites are found: paths of the user's, and the files that come with the package."""

from __future__ import annotations

from pathlib import Path

from site_db.files.given import InvalidFile

_PACKAGE = Path(__file__).parent.parent
_INSTALLED = _PACKAGE / "fixtures"
FIXTURES = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent / "fixtures"
"""Inside the installed package, or at the top of a checkout."""


def built_in(kind: str) -> dict[str, Path]:
    """Name and path of the files of one kind ("experiments", "sites") that come with the package."""
    return {path.stem: path for path in sorted((FIXTURES / kind).glob("*.toml"))}


def is_built_in(path: Path) -> bool:
    """Whether it is one of the files that come with the package."""
    return path.resolve().is_relative_to(FIXTURES.resolve())


def find(name: str, kind: str, folder: Path) -> Path:
    """The file that `name` means: a path (relative ones start at `folder`), or the name of a built-in one.

    Raises InvalidFile where it is neither.
    """
    path = folder / name
    if path.is_file():
        return path
    known = built_in(kind)
    if name in known:
        return known[name]
    elsewhere = "; a site in a database is named with --site DATABASE#SITE" if kind == "sites" else ""
    raise InvalidFile(
        f"there is no file {path}, and no built-in of that name; built in are {', '.join(known)}{elsewhere}"
    )
