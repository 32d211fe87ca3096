"""What Slurm's commands print: records of `scontrol show`, in one line each (`-o`) or in indented lines,
JSON, and in these durations, time limits and trackable resources (TRES): 1-12, cpu=4,mem=8G.

The form of JSON differs by release (the plugins data_parser/v0.0.39 and later, openapi/v0.0.38 before):
numbers are plain, or objects with `set`, `infinite` and `number`; lists are lists, or texts with commas.
<https://slurm.schedmd.com/rest_api.html>
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, inf, isfinite, isnan
from pathlib import Path
from typing import Any

from site_db.files.access import open_lines
from site_db.files.formats import whole
from site_db.files.input_errors import MAX_VALUE, InvalidFile

_RECORD = re.compile(r"\s*(?:NodeName|PartitionName|DownNodes|NodeSet|Include)\b", re.ASCII | re.IGNORECASE)
_OF_A_COMMAND = re.compile(
    r"\s*(?:NodeName|PartitionName)=(?:[^#]*\s)?(?:CPUAlloc|CPUTot|TotalCPUs|TotalNodes)=", re.ASCII
)
"""Matches the first line of a command's output: no configuration has these keys, and no text of a user comes
before them."""
_WORD = re.compile(r"\S++", re.ASCII)
_FREE = ("reason", "comment", "extra", "admincomment")
"""Keys whose values users write; they have a line to themselves, if a record has several lines."""
_WITH_BLANKS = (*_FREE, "os")
_NAMES = """NodeName Arch CoresPerSocket CPUAlloc CPUEfctv CPUErr CPUTot CPULoad AvailableFeatures
    ActiveFeatures Features Gres GresDrain GresUsed NodeAddr NodeHostName Port BcastAddr Version RealMemory
    AllocMem FreeMem Sockets Boards CoreSpecCount CPUSpecList MemSpecLimit State ThreadsPerCore TmpDisk Weight
    Owner MCS_label NextState Partitions BootTime SlurmdStartTime LastBusyTime ResumeAfterTime CfgTRES
    AllocTRES CapWatts CurrentWatts LowestJoules ConsumedJoules AveWatts ExtSensorsJoules ExtSensorsWatts
    ExtSensorsTemp InstanceId InstanceType ReservationName Topology RestrictedCoresPerGPU GpuSpec Parameters
    TLSCertLastRenewal"""
_KEYS = frozenset((*_WITH_BLANKS, *_NAMES.lower().split()))
"""The keys that begin a new value after one with blanks."""


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
"""Slurm's marks in whole numbers for no value, and for infinity."""


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


NO_LIMIT = ("", "unlimited", "infinite", "infinity", "partition_limit", "none", "n/a", "unknown", "-1")
"""Texts that stand for no limit, in lower case."""
YES, NO = ("yes", "true", "up", "1"), ("no", "false", "down", "0")
_UNITS_S = (86_400, 3_600, 60, 1)


@lru_cache(16_384)
def duration_s(text: str, alone_s: int) -> int | None:
    """The seconds of minutes:seconds, hours:minutes:seconds, days-hours and so on, or of a number alone, in
    units of `alone_s`; None for other texts."""
    if "-" not in text and ":" not in text:
        return None if (alone := whole(text)) is None else alone * alone_s
    days, dash, clock = text.rpartition("-")
    numbers = [whole(part) for part in ([days] if dash else []) + clock.split(":")]
    if len(numbers) > 3 + bool(dash):
        return None
    first = 0 if dash else 1 if len(numbers) == 3 else 2
    known = [number for number in numbers if number is not None]
    counted = sum(number * unit_s for number, unit_s in zip(known, _UNITS_S[first:], strict=False))
    return counted if len(known) == len(numbers) else None


def limit_s(text: str) -> float:
    """Seconds of a limit, of which a number alone counts minutes, in whole minutes, rounded up; infinite if
    there is none. Raises ValueError with a clause."""
    if text.lower() in NO_LIMIT:
        return inf
    found_s = duration_s(text, 60)
    if not found_s or found_s > MAX_VALUE:
        raise ValueError(f"'{text}'; expected minutes, hours:minutes:seconds, days-hours, or UNLIMITED")
    return 60.0 * ceil(found_s / 60)


MIB_OF = {"": 1.0, "K": 2.0**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20, "P": 2.0**30}
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class BadTres(ValueError):
    """A text cannot be read. The message says which part of it, and what is expected."""


@dataclass(frozen=True, slots=True)
class Tres:
    """Totals of a job: 0 where the text does not say. `gpus` by type; "" for those of any type. `others` are
    of nodes (gres), `site_resources` of the whole site (licences, burst buffers)."""

    cpus: int = 0
    nodes: int = 0
    memory_mib: int = 0
    gpus: Mapping[str, int] = field(default_factory=dict)
    others: Mapping[str, int] = field(default_factory=dict)
    site_resources: Mapping[str, int] = field(default_factory=dict)

    @property
    def n_gpus(self) -> int:
        return sum(self.gpus.values())


@lru_cache(16_384)
def tres_of(text: str) -> Tres:
    """The resources that a text states. Raises BadTres."""
    counts: dict[str, int] = {}
    gpus: dict[str, int] = {}
    others: dict[str, int] = {}
    of_site: dict[str, int] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, sign, value = part.partition("=")
        if not sign:
            raise BadTres(f"'{part}' is not of the form name=amount, like cpu=64")
        if name == "mem":
            counts["memory_mib"] = memory_mib(value)
        elif name in ("cpu", "node"):
            counts[f"{name}s"] = amount_of(value, part)
        elif name.startswith("gres/gpu"):
            gpus[name.removeprefix("gres/gpu").removeprefix(":").strip()] = amount_of(value, part)
        elif name.startswith("gres/"):
            others[name.removeprefix("gres/")] = amount_of(value, part)
        elif name.startswith(("license/", "bb/")):
            of_site[name.partition("/")[2]] = amount_of(value, part)
    # gres/gpu is the total, gres/gpu:a100 a part of it.
    if (total := gpus.pop("", 0)) > (typed := sum(gpus.values())):
        gpus[""] = total - typed
    gpus = {kind: n for kind, n in gpus.items() if n}
    return Tres(gpus=gpus, others=others, site_resources=of_site, **counts)


def memory_mib(text: str) -> int:
    """The MiB of a text like 256G or 4000M, rounded up. Raises BadTres."""
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)([KMGTP]?)", text, re.IGNORECASE)
    if match is None:
        raise BadTres(f"'{text}' is not an amount of memory, like 256G or 4000M")
    return ceil(float(match[1]) * MIB_OF[match[2].upper()])


def amount_of(text: str, part: str) -> int:
    """The number of a text like 4 or 800G, which `part` of a list names. Raises BadTres."""
    match = re.fullmatch(r"([0-9]{1,15})([KMGT]?)", text, re.IGNORECASE)
    if match is None:
        raise BadTres(f"'{part}' has no whole number of at least 0")
    return int(match[1]) * UNITS[match[2].upper()]
