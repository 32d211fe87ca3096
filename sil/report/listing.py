"""Listings: rows of facts, for consoles, JSON and Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
"""The facts of one row, as JSON has them."""


@dataclass(frozen=True)
class Column:
    """A column of the printed table, made from the facts of each row."""

    title: str
    show: Callable[[Row], str]
    is_number: bool = False
    warns: Callable[[Row], bool] = lambda row: False
    """Whether a cell stands out, like that of a machine that is down."""


def text(title: str, key: str | None = None) -> Column:
    """A column of names; None is left blank. By default, the key is the title with underscores."""
    return _column(title, key, "", is_number=False)


def number(title: str, key: str | None = None, spec: str = ",") -> Column:
    """A column of numbers in the format `spec`, otherwise like `text`."""
    return _column(title, key, spec, is_number=True)


def _column(title: str, key: str | None, spec: str, is_number: bool) -> Column:
    name = key or title.replace(" ", "_")
    return Column(title, lambda row: "" if row[name] is None else format(row[name], spec), is_number)


def texts(*titles: str) -> Iterable[Column]:
    """Columns of names under their own keys."""
    return map(text, titles)


@dataclass(frozen=True)
class Listing:
    """Rows under a title; JSON has all of them under `name`, a table the first `most` and then `total`."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    total: Row | None = None
    most: int | None = None
    hint: str = ""
