"""The lines of Slurm's configuration files: keys with values, comments, joined lines, `Include`.

<https://slurm.schedmd.com/slurm.conf.html>
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from site_db.files.given import InvalidFile
from site_db.files.opened import open_lines

PAIR = re.compile(r"(\w+)=(\"[^\"]*\"|\S*)")
MOST_NUMBER = 2**31 - 1
"""Of a node: each is stored by itself."""


@dataclass(frozen=True)
class Line:
    """A line: its keys in small letters, its values, and where it is."""

    values: Mapping[str, str]
    where: str
    text: str = ""

    def get(self, *keys: str) -> str:
        return next((self.values[key] for key in keys if key in self.values), "")

    def number(self, *keys: str, default: int) -> int:
        """A whole number. Raises InvalidFile."""
        text = self.get(*keys)
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= 15 and int(text) <= MOST_NUMBER):
            raise self.mistake(f"{keys[0]} is '{text}'; expected a whole number, at most {MOST_NUMBER:,}")
        return int(text)

    def check_words(self) -> None:
        """Raises InvalidFile for what is not of the form key=value, like the second word of
        `MaxTime=2 days`."""
        words = PAIR.sub("", self.text).split()
        if words:
            pairs = f"{self.text} ".split(f" {words[0]} ", 1)[0].split()
            after = f" after {pairs[-1]}" if pairs else ""
            raise self.mistake(
                f"'{words[0]}'{after} is not of the form Key=value; expected values without spaces, or in "
                f"quotes"
            )

    def mistake(self, sentence: str) -> InvalidFile:
        return InvalidFile(f"{self.where}: {sentence}")


def is_indented(raw: str) -> bool:
    """Such lines continue the one before in what `scontrol` prints."""
    return raw[:1].isspace() and bool(raw.strip())


def never(raw: str) -> bool:
    """In a configuration file, only a backslash at the end joins lines."""
    return False


def lines_of(
    path: Path, continues: Callable[[str], bool], including: tuple[Path, ...] = ()
) -> Iterator[Line]:
    """The lines of a file and of those that it includes. Those that `continues` says, and those after a
    backslash, belong to the line before. Raises InvalidFile."""
    for number, text in _whole_lines(path, continues):
        include = re.fullmatch(r"include[\s=]\s*(\S+)", text, re.IGNORECASE)
        if include is not None:
            other = path.parent / include[1]
            if other in (*including, path):
                raise InvalidFile(f"{path}, line {number}: {other} includes itself")
            yield from lines_of(other, continues, (*including, path))
            continue
        values = {key.lower(): value.strip('"') for key, value in PAIR.findall(text)}
        yield Line(values, f"{path}, line {number}", text)


def _whole_lines(path: Path, continues: Callable[[str], bool]) -> Iterator[tuple[int, str]]:
    """Lines without comments."""
    parts: list[str] = []
    first = 0
    with open_lines(path) as lines:
        for number, raw in enumerate(lines, start=1):
            line = (re.sub(r"(?<!\\)#.*", "", raw) if "#" in raw else raw).rstrip()
            joins = bool(parts) and parts[-1].endswith("\\")
            if joins:  # as Slurm does, without a space
                parts[-1] = parts[-1].removesuffix("\\") + line
                continue
            if not continues(line):
                if text := " ".join(parts).strip():
                    yield first, text
                parts, first = [], number
            parts.append(line.strip())
    if text := " ".join(parts).strip():
        yield first, text
