"""What `scontrol show node` and `scontrol show partition` print: records without comments, in one line each
(`-o`) or with indented lines, whose values may contain blanks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from site_db.files.opened import open_lines

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
