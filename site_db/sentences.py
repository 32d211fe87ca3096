"""Counts in sentences."""

from __future__ import annotations


def counted(n: int, what: str) -> str:
    """A count with its noun: "1 cluster", "2 job classes"."""
    plural = f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{n:,} {what if n == 1 else plural}"
