"""The cases: those of `cases.toml`, and functions in Python."""

from __future__ import annotations

import re
import tomllib
from itertools import product
from pathlib import Path

from tests.golden.in_python import PARTS, help_of_commands, seeds_needed, signatures
from tests.golden.running import Case

TABLE = Path(__file__).with_name("cases.toml")
CHOICES = re.compile(r"\{([^}]*)\}")


def _expanded(name: str, lines: str, words: dict[str, str]) -> dict[str, str]:
    """A case for each combination of the words in braces."""
    parts = CHOICES.split(name)
    found = {}
    for chosen in product(*(choices.split(",") for choices in parts[1::2])):
        of_case = [part for pair in zip(parts[::2], (*chosen, ""), strict=True) for part in pair]
        known = {**words, **{str(n): word for n, word in enumerate(chosen, start=1)}}
        found["".join(of_case)] = re.sub(r"\$(\d|[A-Z_]+)", lambda match: known[match[1]], lines)  # noqa: B023
    return found


def cases() -> list[Case]:
    table = tomllib.loads(TABLE.read_text())
    words, invalid = table.pop("words"), table["cli"].pop("invalid").strip().splitlines()
    table["cli"] |= {f"invalid-{line[:60].replace('/', ' ')}": line for line in invalid}
    found = [
        Case(group, name, work)
        for group, works in table.items()
        for pattern, lines in works.items()
        for name, work in _expanded(pattern, lines.strip(), words).items()
    ]
    found += [Case("cli", "help", help_of_commands), Case("api", "signatures", signatures)]
    return found + [Case("seeds", f"part-{part}", seeds_needed(part)) for part in range(PARTS)]
