"""The code that files name which neither comes with this package nor belongs to an installed one, and
whether it may run: it is trusted, or the user is asked."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tomlkit
from pydantic import Field

from scheduler import UserError, naming, registry
from scheduler.messages import printable
from sil.settings import files
from site_db.files import toml_file
from site_db.files.access import read_text
from site_db.files.toml_file import EACH, Table, parse

if TYPE_CHECKING:
    from sil.settings.experiment_file import RunSettings
    from site_db.store import Address


BUILT_IN = {name: target for of in registry.BUILT_IN.values() for name, target in of.items()}


@dataclass(frozen=True)
class Named:
    """What a file or a database would run; `path` is that of a file."""

    where: str
    code: tuple[str, ...]
    path: Path | None = None

    @property
    def key(self) -> str:
        """A key of the file or the database, the same from whatever folder it is named."""
        return self.where if self.path is None else str(self.path.resolve())


def foreign_code(
    settings: RunSettings, source: Path, address: Address | None, given: Collection[str] = ()
) -> list[Named]:
    """What an experiment or a plan in the file `source` would run, and what its site would: the one at
    `address`, or else the one that it names. Names that the user has `given` are left out.

    Raises UserError.
    """
    own = (*settings.schedulers, *(queue.scheduler for queue in settings.queues))
    found = [_in_file(source, [name for name in own if name not in given])]
    site: str = getattr(settings, "site", "")
    has_queues = not settings.queues and getattr(settings, "is_on_site", True)
    if has_queues and address is not None:
        found.append(Named(str(address), _foreign(_of_queues_in_database(address))))
    elif has_queues and site:
        path = files.find(site, "sites", source.parent)
        found.append(_in_file(path, () if files.is_built_in(path) else _of_queues_in_file(path)))
    return [named for named in found if named.code]


def _in_file(path: Path, names: Iterable[str | None]) -> Named:
    return Named(str(path), () if files.is_built_in(path) else _foreign(names), path)


def _of_queues_in_file(path: Path) -> Iterator[str]:
    """The schedulers of queues in a site file, without all the checks that follow when it is read."""
    queues = parse(read_text(path, EACH), path).get("queues", [])
    for queue in queues if isinstance(queues, list) else []:
        name = queue.get("scheduler") if isinstance(queue, dict) else None
        if isinstance(name, str):
            yield name


def _of_queues_in_database(address: Address) -> list[str | None]:
    from site_db import sites, store  # which a replay does without

    with store.opened(address) as session:
        reader = sites.SiteReader(session, sites.site_at(session, address))
        return [scheduler for _, scheduler in reader.queue_policies()]


def _foreign(names: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_described(name) for name in names if name and is_foreign(name)))


def is_foreign(name: str) -> bool:
    """Whether a scheduler's name denotes a module, a command or a folder of programs, also in a parameter."""
    if re.match(r"slurm\s*\(\s*(prefix|root)\s*=", name):
        return True
    if ":" not in name or name.startswith(("batsim+tcp://", "slurm:", "slurm (")):
        return False  # of a slurm.conf, nothing is run
    try:
        base, given = naming.split(name)
    except naming.Misnamed:
        return True
    is_built_in = base in BUILT_IN or base in BUILT_IN.values()
    return not is_built_in or any(":" in value for value in given.values() if isinstance(value, str))


def _described(name: str) -> str:
    """The name, and for a module where it would be loaded from."""
    module = name.partition(":")[0].partition(".")[0].strip()
    try:
        found = None if name.startswith("batsim") else files.module_spec(module, os.getcwd())
    except (ImportError, ValueError, AttributeError, OSError):
        found = None
    return name if found is None or not found.origin else f"{name} ({found.origin})"


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
    """The list; empty if there is none. Raises InvalidFile."""
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
    """Allow nothing, without a user who can answer; the message says how it could be allowed."""

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
