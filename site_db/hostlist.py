"""Names in the bracket notation that sites know from Slurm: `node[01-08,12]`."""

from __future__ import annotations

import re
from collections.abc import Iterable

MOST = 100_000
"""Names in one range. More are a slip of the keyboard, which must not fill the memory."""


def expand(names: Iterable[str]) -> list[str]:
    """All names that `names` stand for, in order. Raises ValueError for a malformed bracket."""
    return [name for pattern in names for name in _expand_one(pattern)]


def _expand_one(pattern: str) -> list[str]:
    match = re.fullmatch(r"([^\[\]]*)\[([^\[\]]*)\]([^\[\]]*)", pattern)
    if match is None:
        if "[" in pattern or "]" in pattern:
            raise ValueError(f"'{pattern}' is no name and no range like node[01-08,12]")
        return [pattern]
    before, ranges, after = match.groups()
    return [f"{before}{number}{after}" for part in ranges.split(",") for number in _numbers(part, pattern)]


def _numbers(part: str, pattern: str) -> list[str]:
    match = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", part.strip())
    if match is None or int(match[1]) > int(match[2] or match[1]):
        raise ValueError(f"'{pattern}' has a part '{part}' that is no range of numbers like 01-08")
    first, last = match[1], match[2] or match[1]
    if int(last) - int(first) >= MOST:
        raise ValueError(f"'{pattern}' stands for more than {MOST} names")
    return [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
