"""Listings: rows of facts, for consoles, JSON and Python; results as JSON, and names as names of files."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from scheduler.messages import printable

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


def json_text(value: object) -> str:
    """JSON with a member on each line, in ASCII if some characters could not be printed. JSON has no infinity
    and no NaN: they are null."""
    finite = _finite(value)
    text = json.dumps(finite, indent=2, ensure_ascii=False, allow_nan=False)
    return text if printable(text) == text else json.dumps(finite, indent=2)


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if isfinite(value) else None
        case dict():
            return {key: _finite(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_finite(inner) for inner in value]
    return value


MAX_BYTES = 120
"""The longest name, in bytes, which leaves room for endings: file systems have 255."""


def file_name(name: str) -> str:
    """A single part of a path, however the name reads: letters, digits and some signs of it, where others and
    a dot at its beginning become hyphens. A long name is cut, and ends with a hash of the whole."""
    found = re.sub(r"[^\w.=,()+-]+|^\.+", "-", name) or "-"
    if len(found.encode()) <= MAX_BYTES:
        return found
    mark = f"-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
    return found.encode()[: MAX_BYTES - len(mark)].decode(errors="ignore") + mark
