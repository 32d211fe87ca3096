"""The lines of Slurm's configuration files, as Slurm reads them: keys with values, comments, joined lines,
`Include`.

<https://slurm.schedmd.com/slurm.conf.html>
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from site_db.files.input_errors import InvalidFile, quoted, shortened
from site_db.slurm.output import blocks, is_output, values_of
from site_db.slurm.records import records_of

MAX_NUMBER = 2**31 - 1
"""The largest number of a node: each is stored by itself."""
MAX_FILES, DEEPEST = 1000, 40
"""The most files that are included in all, and that include one another."""
_BLANKS = " \t\n\r\v\f"
# Possessive quantifiers (`++`) keep the time linear in the length of the text.
_PART = re.compile(r'([\w.]++)\s*+[-+*/]?=\s*+(?:"([^"]*+)"(?!\S)|(\S++))?|(\S++)', re.ASCII)
_UNCOMMENTED = re.compile(r"(?:[^\\#]|\\.?)*+", re.DOTALL)
_INCLUDE = re.compile(r"include(?:\s++=?|=)\s*+(\S++)(.*)", re.ASCII | re.IGNORECASE)


class Pair(NamedTuple):
    """A key as it is written, and its value as Slurm takes it, without quotes. `str` is how a file has it.

    A word that belongs to no key has an empty key.
    """

    key: str
    value: str

    @property
    def name(self) -> str:
        """The key in small letters, since Slurm does not distinguish them."""
        return self.key.lower()

    def __str__(self) -> str:
        text = re.sub(r"[\\#]", r"\\\g<0>", self.value)
        if not self.key:
            return text
        has_blanks = not text or re.search(r"\s", text, re.ASCII)
        return f'{self.key}="{text}"' if has_blanks else f"{self.key}={text}"


def pairs_of(text: str) -> Iterator[Pair]:
    """The pairs of a line: key, `=` with or without blanks around it, value. A value is a quoted text that is
    followed by a blank or the end, else everything up to the next blank."""
    for key, quoted_value, value, word in _PART.findall(unescaped(text)):
        yield Pair(key, quoted_value or value or word)


@dataclass(frozen=True)
class Line:
    """A line: its keys in small letters, its values, and where it is."""

    values: Mapping[str, str]
    where: str
    pairs: tuple[Pair, ...] = ()
    """The pairs as written, in a configuration file."""
    is_output: bool = False
    """Whether it is a line of a command's output, which has more keys than a configuration file may have."""

    def get(self, *keys: str) -> str:
        return next((self.values[key] for key in keys if key in self.values), "")

    def number(self, *keys: str, default: int) -> int:
        """A whole number. Raises InvalidFile."""
        text = self.get(*keys)
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= 15 and int(text) <= MAX_NUMBER):
            raise self.mistake(
                f"{keys[0]} is {quoted(text)}; expected a whole number, at most {MAX_NUMBER:,}"
            )
        return int(text)

    def sets_defaults(self, kind: str) -> bool:
        """Whether it states no node or partition, but defaults for the lines after it."""
        return kind in ("nodename", "partitionname") and self.values[kind].upper() == "DEFAULT"

    def check_words(self) -> None:
        """Raise InvalidFile for what is not of the form key=value, like the second word of `MaxTime=2
        days`."""
        for before, pair in zip((None, *self.pairs), self.pairs, strict=False):
            if not pair.key:
                after = f" after {before.key}={before.value}" if before else ""
                raise self.mistake(
                    f"{quoted(pair.value)}{after} is not of the form Key=value; expected values without "
                    f"spaces, or in quotes"
                )

    def mistake(self, sentence: str) -> InvalidFile:
        return InvalidFile(f"{self.where}: {shortened(sentence)}")


def lines_of(path: Path, notes: list[str]) -> Iterator[Line]:
    """The lines of a file and of those that it includes; each record of the output of a command is a line.
    `notes` gets a sentence for each file that is taken from another folder. Raises InvalidFile."""
    return _Reader(path.parent, notes).lines(path)


def with_defaults(lines: Iterable[Line], kinds: Iterable[str]) -> Iterator[tuple[str, Line, Line]]:
    """For each line, that of `kinds` which it states, or "", the line with the defaults that it has, and the
    line as it is."""
    defaults: dict[str, Mapping[str, str]] = {}
    for line in lines:
        kind = next((key for key in kinds if key in line.values), "")
        whole = replace(line, values={**defaults.get(kind, {}), **line.values})
        if line.sets_defaults(kind):
            defaults[kind] = whole.values
        yield kind, whole, line


@dataclass
class _Reader:
    root: Path
    """The folder of the first file, at which relative paths of all files begin."""
    notes: list[str]
    n_files: int = 0

    def lines(self, path: Path, including: tuple[Path, ...] = ()) -> Iterator[Line]:
        here = (*including, path.resolve())
        for line in _lines(path, self.notes):
            words = (f"{pair.key}={pair.value}" if pair.key else pair.value for pair in line.pairs)
            included = _INCLUDE.fullmatch(" ".join(words))
            if included is None:
                yield line
                continue
            if included[2]:
                raise line.mistake(f"'{included[2].strip()}' follows the name of a file; expected one file")
            other = self._included(included[1], path, line)
            if other.resolve() in here:
                raise line.mistake(f"{other} includes itself")
            self.n_files += 1
            if self.n_files > MAX_FILES or len(here) > DEEPEST:
                raise line.mistake(
                    f"too many files are included; expected at most {MAX_FILES:,}, and {DEEPEST} one in "
                    f"another"
                )
            yield from self.lines(other, here)

    def _included(self, name: str, path: Path, line: Line) -> Path:
        """The file of that name; in place of one of another machine, a copy beside the first file."""
        parts, is_absolute = Path(name).parts, Path(name).is_absolute()
        copies = [self.root.joinpath(*parts[k:]) for k in range(1, len(parts))]
        copies = copies if is_absolute else [path.parent / name]
        wanted = self.root / name
        found = next((file for file in (wanted, *copies) if file.exists()), None)
        if found is None:
            beside = f", nor {copies[-1]}" if is_absolute else ""
            raise line.mistake(
                f"it includes {name}, but there is no file {wanted}{beside}; add it beside {path}"
            )
        if not found.is_file():  # a pipe might never end
            raise line.mistake(f"it includes {found}, which is not a regular file; expected one")
        if is_absolute and found in copies:
            self.notes.append(f"{line.where}: read {found} for {name}, which is not on this machine")
        return found


def _lines(path: Path, notes: list[str]) -> Iterator[Line]:
    text, first, continues = "", 0, False
    found = blocks(path)
    for number, raw_lines in found:
        if raw_lines[0].lstrip().startswith("{"):
            rest = (raw for _, more in found for raw in more)
            for name, values in records_of("\n".join((*raw_lines, *rest)), path, notes):
                yield Line(values, name, is_output=True)
            return
        if not continues and is_output(raw_lines):
            yield Line(values_of(raw_lines), f"{path}, line {number}", is_output=True)
            continue
        for at, raw in enumerate(raw_lines, start=number):
            first = first if continues else at
            part, continues = uncommented(raw)
            text += part
            if not continues:
                yield from _configured(text, f"{path}, line {first}")
                text = ""
    yield from _configured(text, f"{path}, line {first}")


def uncommented(raw: str) -> tuple[str, bool]:
    """A line without its comment, and whether the next one belongs to it: as in Slurm, an odd number of
    backslashes joins that, without a space."""
    found = _UNCOMMENTED.match(raw)
    part = found[0].rstrip(_BLANKS) if found else ""
    continues = (len(part) - len(part.rstrip("\\"))) % 2 == 1
    return part[:-1] if continues else part, continues


def unescaped(text: str) -> str:
    """A backslash before a character stands for that character, as in `\\#`."""
    return re.sub(r"\\(.?)", r"\1", text)


def _configured(text: str, where: str) -> Iterator[Line]:
    if pairs := (*pairs_of(text),):
        yield Line({pair.name: pair.value for pair in pairs if pair.key}, where, pairs)
