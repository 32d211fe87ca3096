"""Names in the bracket notation of Slurm: `node[01-08,12]`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from math import prod

MOST, MOST_IN_ALL = 100_000, 1_000_000
"""Names in one range, and in a list; more are a typing error, which must not exhaust the memory."""


def expand(names: Iterable[str]) -> list[str]:
    """All names that the patterns `names` stand for, in order: with several brackets, the last numbers
    change first. Raises ValueError for a malformed bracket, and for more names than any site has."""
    found: list[str] = []
    for pattern in names:
        parts = _parts(pattern)
        _check_number(len(found) + prod(map(len, parts)), pattern)
        found += map("".join, product(*parts))
    return found


def _parts(pattern: str) -> list[list[str]]:
    """The text before the first bracket, the numbers in it, the text after it, and so on."""
    texts = re.split(r"\[([^\[\]]*)\]", pattern)
    if any("[" in text or "]" in text for text in texts[::2]):
        raise ValueError(f"'{pattern}' is neither a name nor a range like node[01-08,12]")
    parts = [[text] for text in texts]
    for at in range(1, len(parts), 2):
        parts[at] = []
        for ranges in texts[at].split(","):
            parts[at] += _numbers(ranges, pattern)
            _check_number(len(parts[at]), pattern)
    return parts


def _check_number(n: int, pattern: str) -> None:
    if n > MOST_IN_ALL:
        raise ValueError(f"a list that ends in '{pattern[:40]}' has more than {MOST_IN_ALL:,} names")


def _numbers(part: str, pattern: str) -> list[str]:
    match = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", part.strip())
    if match is None or int(match[1]) > int(match[2] or match[1]):
        raise ValueError(f"'{pattern}' contains '{part}', which is not a range of numbers like 01-08")
    first, last = match[1], match[2] or match[1]
    if int(last) - int(first) >= MOST:
        raise ValueError(f"'{pattern}' stands for more than {MOST} names")
    return [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]


def fold(names: Iterable[str]) -> list[str]:
    """`names` in the bracket notation: consecutive numbers with the same prefix become a range."""
    ranges: list[tuple[str, int, str, str]] = []  # prefix, digits, first and last number
    for name in names:
        match = re.fullmatch(r"(.*?)([0-9]{1,18})", name, re.DOTALL)
        before, number = (match[1], match[2]) if match else (name, "")
        if ranges and number:
            last_before, width, first, last = ranges[-1]
            follows = last != "" and number == str(int(last) + 1).zfill(width)
            if last_before == before and follows and int(number) - int(first) < MOST:
                ranges[-1] = (before, width, first, number)
                continue
        ranges.append((before, len(number), number, number))
    return [before + (first if first == last else f"[{first}-{last}]") for before, _, first, last in ranges]


def patterns(text: str) -> list[str]:
    """The patterns of a list like n[01-03,07],x7: they end at the commas outside brackets."""
    found: list[str] = []
    parts: list[str] = []
    inside = False
    for part in text.split(","):
        parts.append(part)
        if "[" in part or "]" in part:
            inside = part.rfind("[") > part.rfind("]")
        if not inside:
            found.append(",".join(parts).strip())
            parts = []
    return [pattern for pattern in (*found, ",".join(parts)) if pattern]
