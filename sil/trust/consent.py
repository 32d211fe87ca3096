"""Whether what files name may be run: it is trusted, or the user is asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import tomlkit
from pydantic import Field

from scheduler import UserError
from scheduler.messages import printable
from sil.trust.foreign_code import Named
from site_db.files import toml_file
from site_db.files.readers import read_text
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


Ask = Callable[[Sequence[Named]], None]
"""Raises UserError unless the user allows what is named."""


def permit(found: Sequence[Named], ask: Ask) -> None:
    """Ask about what the user's list does not cover. Raises UserError, and InvalidFile for a wrong list."""
    if found and (open_questions := [named for named in found if not read_list().covers(named)]):
        ask(open_questions)


def refuse(how_to_allow: str) -> Ask:
    """Without a user who can answer, nothing is allowed; the message says how it could be."""

    def answer(named: Sequence[Named]) -> None:
        would = ", and ".join(f"{one.where} would run {'; '.join(one.code)}" for one in named)
        raise UserError(
            f"{would}: this can do whatever you can; if you trust it, {how_to_allow}, or list its folder in "
            f"{list_path()}"
        )

    return answer


def ask_in_terminal(named: Sequence[Named]) -> None:
    """List what would be run, and remember a yes. Where there is no terminal, nothing is allowed."""
    with_trust = "repeat the command with --trust"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        refuse(with_trust)(named)
    for one in named:
        _show(f"{one.where} would run code that neither comes with sil nor is an installed plug-in:\n")
        for code in one.code:
            _show(f"  {code}\n")
    _show("It can do whatever you can. Run it? [y/N] ")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UserError("nothing was run")
    try:
        _show(f"You will not be asked about this again: it is listed in {remember(named)}.\n")
    except OSError as error:
        _show(f"You will be asked again, since {list_path()} cannot be written: {error.strerror}.\n")


def _show(text: str) -> None:
    print(printable(text), end="", file=sys.stderr, flush=True)
