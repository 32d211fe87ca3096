"""What Slurm's commands print: records of `scontrol show`, in one line each (`-o`) or in indented lines, and
JSON.

The form of JSON differs by release (the plugins data_parser/v0.0.39 and later, openapi/v0.0.38 before):
numbers are plain, or objects with `set`, `infinite` and `number`; lists are lists, or texts with commas.
<https://slurm.schedmd.com/rest_api.html>
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import isfinite, isnan
from pathlib import Path
from typing import Any

from site_db.files.input_errors import InvalidFile
from site_db.files.readers import open_lines

_RECORD = re.compile(r"\s*(?:NodeName|PartitionName|DownNodes|NodeSet|Include)\b", re.ASCII | re.IGNORECASE)
_OF_A_COMMAND = re.compile(
    r"\s*(?:NodeName|PartitionName)=(?:[^#]*\s)?(?:CPUAlloc|CPUTot|TotalCPUs|TotalNodes)=", re.ASCII
)
"""No configuration has these keys, and no text of a user comes before them."""
_WORD = re.compile(r"\S++", re.ASCII)
_FREE = ("reason", "comment", "extra", "admincomment")
"""Keys whose values users write; they have a line for themselves, if a record has several lines."""
_WITH_BLANKS = (*_FREE, "os")
_NAMES = """NodeName Arch CoresPerSocket CPUAlloc CPUEfctv CPUErr CPUTot CPULoad AvailableFeatures
    ActiveFeatures Features Gres GresDrain GresUsed NodeAddr NodeHostName Port BcastAddr Version RealMemory
    AllocMem FreeMem Sockets Boards CoreSpecCount CPUSpecList MemSpecLimit State ThreadsPerCore TmpDisk Weight
    Owner MCS_label NextState Partitions BootTime SlurmdStartTime LastBusyTime ResumeAfterTime CfgTRES
    AllocTRES CapWatts CurrentWatts LowestJoules ConsumedJoules AveWatts ExtSensorsJoules ExtSensorsWatts
    ExtSensorsTemp InstanceId InstanceType ReservationName Topology RestrictedCoresPerGPU GpuSpec Parameters
    TLSCertLastRenewal"""
_KEYS = frozenset((*_WITH_BLANKS, *_NAMES.lower().split()))
"""Only these begin a new value after one with blanks."""


def blocks(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The lines of a file with the indented ones that follow each, and the number of the first."""
    block: list[str] = []
    first = 1
    with open_lines(path) as lines:
        for number, raw in enumerate(lines, start=1):
            if block and not (raw[:1].isspace() and raw.strip() and _RECORD.match(raw) is None):
                yield first, block
                block, first = [], number
            block.append(raw.rstrip("\n"))
    if block:
        yield first, block


def is_output(lines: Sequence[str]) -> bool:
    return _RECORD.match(lines[0]) is not None and _OF_A_COMMAND.match("\n".join(lines)) is not None


def values_of(lines: Sequence[str]) -> dict[str, str]:
    """The values of a record by key in small letters. What follows a value with blanks is part of it, unless
    it begins with a key of Slurm. Of a key that occurs twice, the first value counts."""
    values: dict[str, list[str]] = {}
    for line in lines:
        words: list[str] = []
        key = ""
        for word in _WORD.findall(line):
            name, separator, value = word.partition("=")
            name = name.lower()
            is_text = key in _FREE and len(lines) > 1
            if separator and not is_text and (key not in _WITH_BLANKS or name in _KEYS):
                key, words = name, [value]
                values.setdefault(key, words)
            else:
                words.append(word)
    found = {key: " ".join(filter(None, words)) for key, words in values.items()}
    return {key: "" if value == "(null)" else value for key, value in found.items()}


_BLANKS = re.compile(r"[ \t\n\r]*+")
Object = Mapping[str, Any]
_NO_VALUE, _INFINITE = (2**32 - 2, 2**64 - 2), (2**32 - 1, 2**64 - 1)
"""Slurm's marks in whole numbers."""


def objects_in(
    text: str, path: Path, keys: Collection[str], expected: str
) -> Iterator[tuple[str, int, Object]]:
    """The objects in the lists `keys` of one or several documents, each with its key and line. They are
    decoded one by one. Raises InvalidFile."""
    scan = _Scanner(text, path, expected)
    while not scan.is_at_the_end:
        for key in scan.members():
            is_list = key in keys and scan.sees("[")
            for begin, found in scan.elements() if is_list else [(scan.at, scan.value())]:
                if is_list and isinstance(found, dict):
                    yield key, scan.line(begin), found
                elif key in keys and (is_list or found):
                    raise scan.mistake(f"'{key}' is not a list of objects", begin)


class _Scanner:
    """Decodes the values of a text one by one."""

    def __init__(self, text: str, path: Path, expected: str) -> None:
        self._text, self._path, self._expected = text, path, expected
        self._decode = json.JSONDecoder().raw_decode
        self.at = 0
        self._go_to(0)
        self._counted = 1, 0

    @property
    def is_at_the_end(self) -> bool:
        return self.at == len(self._text)

    def sees(self, sign: str) -> bool:
        return self._text.startswith(sign, self.at)

    def value(self) -> Any:
        try:
            found, at = self._decode(self._text, self.at)
        except json.JSONDecodeError as error:
            raise self._unreadable(error.msg, error.pos) from None
        except (ValueError, RecursionError):
            why = "it is nested too deeply, or a number has too many digits"
            raise self._unreadable(why, self.at) from None
        self._go_to(at)
        return found

    def members(self) -> Iterator[str]:
        """Of an object; after each, its value has to be taken."""
        for _ in self._separated("{", "}"):
            key = self.value()
            self._take(":")
            yield key

    def elements(self) -> Iterator[tuple[int, Any]]:
        """Of a list, with their places."""
        for _ in self._separated("[", "]"):
            yield self.at, self.value()

    def line(self, place: int) -> int:
        """That of a place; they are asked for in order."""
        line, counted_to = self._counted
        self._counted = line + self._text.count("\n", counted_to, place), place
        return self._counted[0]

    def mistake(self, sentence: str, place: int) -> InvalidFile:
        return InvalidFile(f"{self._path}, line {self.line(place)}: {sentence}; {self._expected}")

    def _unreadable(self, why: str, place: int) -> InvalidFile:
        return self.mistake(f"this JSON cannot be read: {why}", place)

    def _go_to(self, at: int) -> None:
        found = _BLANKS.match(self._text, at)
        self.at = at if found is None else found.end()

    def _separated(self, first: str, last: str) -> Iterator[None]:
        self._take(first)
        while not self.sees(last):
            yield
            if not self.sees(last):
                self._take(",")
        self._take(last)

    def _take(self, sign: str) -> None:
        if not self.sees(sign):
            raise self._unreadable(f"Expecting '{sign}'", self.at)
        self._go_to(self.at + 1)


def at(entry: object, path: str) -> object:
    """What is at a path like `time/start`; None if there is nothing."""
    for key in path.split("/"):
        entry = entry.get(key) if isinstance(entry, dict) else None
    return entry


def text_at(entry: object, *paths: str, separator: str = ",") -> str:
    """What is at the first of the paths that has a value, as Slurm prints it; empty if none has."""
    for path in paths:
        found = at(entry, path)
        values = found if isinstance(found, list) else [found]
        if text := separator.join(filter(None, map(_plain, values))):
            return text
    return ""


def _plain(value: object) -> str:
    if isinstance(value, dict):
        if value.get("infinite") is True:
            return "UNLIMITED"
        value = value.get("number") if value.get("set", True) is True else None
    if isinstance(value, float) and not isnan(value):
        value = int(value) if isfinite(value) and value.is_integer() else value
    if value in _INFINITE or value == float("inf"):
        return "UNLIMITED"
    is_text = isinstance(value, str | int | float) and not isinstance(value, bool)
    return str(value) if is_text and value not in _NO_VALUE and value == value else ""
