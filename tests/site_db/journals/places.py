"""Durable journals for tests, by kind and place, and numbered entries for them."""

from __future__ import annotations

from pathlib import Path

from scheduler.durability.journal import JournalEntry
from site_db.journals import ChainedJournal, DatabaseJournal, FileJournal
from site_db.store import parse_address


def opened(kind: str, place: str) -> ChainedJournal:
    """The journal at a place: a file, or the address of a database."""
    return FileJournal(Path(place)) if kind == "file" else DatabaseJournal(parse_address(place))


def entry(n: int) -> JournalEntry:
    """Entries of different lengths, so that a write may be cut short."""
    return JournalEntry(
        "on_answer", (n,), (float(n), "x" * (100_000 if n % 10 == 9 else n)), (("ping", (n,)),)
    )
