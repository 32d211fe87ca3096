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
    decode = json.JSONDecoder().raw_decode
    place, line, counted_to = 0, 1, 0

    def mistake(sentence: str, at: int) -> InvalidFile:
        return InvalidFile(f"{path}, line {text.count(chr(10), 0, at) + 1}: {sentence}; {expected}")

    def unreadable(why: str, at: int) -> InvalidFile:
        return mistake(f"this JSON cannot be read: {why}", at)

    def skip_blanks(at: int) -> None:
        nonlocal place
        found = _BLANKS.match(text, at)
        place = at if found is None else found.end()

    def take(sign: str) -> None:
        if not text.startswith(sign, place):
            raise unreadable(f"Expecting '{sign}'", place)
        skip_blanks(place + 1)

    def value() -> Any:
        try:
            found, end = decode(text, place)
        except json.JSONDecodeError as error:
            raise unreadable(error.msg, error.pos) from None
        except (ValueError, RecursionError):
            why = "it is nested too deeply, or a number has too many digits"
            raise unreadable(why, place) from None
        skip_blanks(end)
        return found

    def separated(first: str, last: str) -> Iterator[int]:
        """The places of the members of an object, or of the elements of a list, which have to be taken."""
        take(first)
        while not text.startswith(last, place):
            yield place
            if not text.startswith(last, place):
                take(",")
        take(last)

    skip_blanks(0)
    while place < len(text):
        for _ in separated("{", "}"):
            key = value()
            take(":")
            if key not in keys or not text.startswith("[", place):
                begin = place
                if value() and key in keys:
                    raise mistake(f"'{key}' is not a list of objects", begin)
                continue
            for begin in separated("[", "]"):
                found = value()
                if not isinstance(found, dict):
                    raise mistake(f"'{key}' is not a list of objects", begin)
                line, counted_to = line + text.count("\n", counted_to, begin), begin
                yield key, line, found


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
