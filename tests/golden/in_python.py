"""Cases that are no command lines: texts of help, signatures, and the seeds that seeded bugs need."""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

ENOUGH_SEEDS = 500
PARTS = 8
"""Cases among which the seeded bugs are divided, so that several processes search."""


def help_of_commands() -> None:
    """A file for each command and group, found in the help of its group."""
    from tests.golden.running import _command, in_child

    waiting: list[list[str]] = [[]]
    while waiting:
        words = waiting.pop()
        name = "-".join(["sil", *words])
        os.waitpid(in_child(lambda: _command([*words, "--help"], name)), 0)  # noqa: B023
        _, _, listed = Path(f"{name}.out").read_text().partition("\nCommands:\n")
        waiting += [[*words, word] for word in re.findall(r"^  (\S+)  ", listed, re.MULTILINE)]


def _signature(value: Any) -> str:
    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return type(value).__name__


def _members(name: str, value: Any) -> dict[str, str]:
    found = {name: _signature(value)}
    if inspect.isclass(value):
        for member in sorted(vars(value)):
            if not member.startswith("_"):
                attribute = inspect.getattr_static(value, member)
                inner = getattr(attribute, "__func__", attribute)
                found[f"{name}.{member}"] = (
                    "property" if isinstance(attribute, property) else _signature(inner)
                )
    return found


def signatures() -> None:
    """Of all that `import sil` and `sil.gym` offer."""
    import sil

    found: dict[str, str] = {}
    for name in sil.__all__:
        found |= _members(name, getattr(sil, name)) if name != "__version__" else {}
    try:
        import gymnasium

        import sil.gym
    except ImportError:
        pass
    else:
        for identity in ("sil/Backfill-v0", "sil/Mapping-v0"):
            spec = gymnasium.spec(identity)
            for entry in (spec.entry_point, spec.vector_entry_point):
                module, _, name = str(entry).partition(":")
                found |= _members(f"gym.{name}", getattr(__import__(module, fromlist=[name]), name))
    Path("signatures.json").write_text(json.dumps(found, indent=1))


def seeds_needed(part: int) -> Callable[[], None]:
    """Of a part of the bugs: the number of seeds until the first case that shows it."""

    def search() -> None:
        from tests.sil.swarm.seeded_bugs import BUGS
        from tests.sil.swarm.seeds_needed import first_violation

        found = {bug.name: first_violation(bug, ENOUGH_SEEDS) for bug in BUGS[part::PARTS]}
        needed = {name: None if first is None else first[0] + 1 for name, first in found.items()}
        Path("seeds.json").write_text(json.dumps(needed, indent=1))

    return search
