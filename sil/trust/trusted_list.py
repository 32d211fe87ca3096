"""The user's list of trusted files, `trusted.toml` in the folder of the user's configuration."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import tomlkit
from pydantic import Field

from sil.trust.foreign_code import Named
from site_db.files import toml_file
from site_db.files.opened import read_text
from site_db.files.toml_file import Table

HEAD = """\
# What files of experiments, plans and sites may run without a question: whatever those below these folders
# name, and of single files (or databases) what is listed here. See docs/how-to/experiments.md.
folders = []

[files]
"""


class TrustedList(Table):
    folders: tuple[str, ...] = ()
    files: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    def covers(self, named: Named) -> bool:
        """Whether all that a file would run is trusted."""
        if set(named.code) <= set(self.files.get(named.key, ())):
            return True
        folders = [Path(folder).expanduser().resolve() for folder in self.folders]
        return named.path is not None and any(named.path.resolve().is_relative_to(one) for one in folders)


def list_path() -> Path:
    """Where the list is, by the XDG Base Directory Specification."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return (folder if folder.is_absolute() else Path("~/.config").expanduser()) / "sil" / "trusted.toml"


def read_list() -> TrustedList:
    """Empty if there is none. Raises InvalidFile."""
    path = list_path()
    return toml_file.read(path, TrustedList) if path.is_file() else TrustedList()


def remember(trusted: Iterable[Named]) -> Path:
    """Add what these files would run to the list. Raises OSError."""
    path = list_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    text = read_text(path) if path.is_file() else HEAD
    document = tomlkit.parse(text)
    files = document.setdefault("files", tomlkit.table())
    for named in trusted:
        files[named.key] = list(named.code)
    unfinished = path.with_suffix(f".{os.getpid()}")
    unfinished.write_text(tomlkit.dumps(document), encoding="utf-8")
    unfinished.replace(path)
    return path
