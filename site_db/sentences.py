"""Counts in sentences."""

from __future__ import annotations

from collections.abc import Sequence

MOST_SHOWN = 10


def counted(n: int, what: str) -> str:
    """A count with its noun: "1 cluster", "2 job classes"."""
    plural = f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{n:,} {what if n == 1 else plural}"


def shown(names: Sequence[str]) -> str:
    """The names, of which there may be thousands, as far as a sentence has room: "a, b, ..."."""
    return ", ".join([*names[:MOST_SHOWN], *(["..."] if len(names) > MOST_SHOWN else [])])
