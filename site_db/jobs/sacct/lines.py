"""The fields of the lines of accounting."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from site_db.jobs.sacct.columns import Layout, has_form, layout_of

_LONGEST_TEXT = 1_000
"""Lines of a text in quotes."""


class Line(NamedTuple):
    number: int
    fields: list[str]
    cut: frozenset[str] = frozenset()
    """The columns whose values are cut off, and end in +."""


class Lines:
    """The lines below one header. `fits` says whether the fields of a line have the forms of columns."""

    def __init__(
        self, layout: Layout, numbered: Iterator[tuple[int, str]], fits: Callable[[Sequence[str]], bool]
    ) -> None:
        self._layout, self.rest, self._fits = layout, numbered, fits
        self.next_header: str | None = None

    def under(self, header: str) -> Iterator[Line]:
        """The fields of each line, or of lines that quotes join, without the header where it is repeated."""
        layout, may_be_quoted = self._layout, self._layout.may_be_quoted
        while (following := next(self.rest, None)) is not None:
            number, text = following
            if text == header or (layout.widths and not set(text) - set("- ")):
                continue
            if ("JobID" in text or "jobid" in text) and _is_other_header(text):
                self.next_header = text
                return
            if layout.widths:
                yield self._slices(number, text)
            elif may_be_quoted and _has_quote(text, layout.separator):
                joined, unused = self._joined_by_quotes(text)
                self.rest = chain(unused, self.rest)
                fields = _unquoted(joined, layout.separator)
                yield Line(number, self._split(text) if fields is None else fields)
            else:
                yield Line(number, self._split(text))

    def _split(self, text: str) -> list[str]:
        separator, n = self._layout.separator, len(self._layout.columns)
        text = text if separator == "\t" else text.replace("\t", "")
        fields = text.split() if separator == " " else text.split(separator)
        return _lists_joined(fields) if separator == "," and len(fields) > n else fields

    def _joined_by_quotes(self, text: str) -> tuple[str, list[tuple[int, str]]]:
        """A line with those to which its quotes extend, and what was read in vain where none closes them
        before the next whole row."""
        lines: list[tuple[int, str]] = []
        joined = text
        while joined.count('"') % 2 and len(lines) < _LONGEST_TEXT and (following := next(self.rest, None)):
            lines.append(following)
            joined += "\n" + following[1]
            if self._is_row(following[1]):
                return text, lines
        return (text, lines) if joined.count('"') % 2 else (joined, [])

    def _is_row(self, text: str) -> bool:
        fields = self._split(text)
        return len(fields) == len(self._layout.columns) and self._fits(fields)

    def _slices(self, number: int, text: str) -> Line:
        """Slurm counts the bytes of a value, so that other than ASCII letters move what follows."""
        fields = [text[begin:end] for begin, end in self._layout.widths]
        if not text.isascii() and not self._fits(fields):
            data = text.encode()
            fields = [data[begin:end].decode(errors="replace") for begin, end in self._layout.widths]
        cut = frozenset(
            column
            for column, value, (begin, end) in zip(
                self._layout.columns, fields, self._layout.widths, strict=True
            )
            if value.endswith("+") and len(value.strip()) == end - begin and column != "state"
        )
        return Line(number, fields, cut)


def _is_other_header(text: str) -> bool:
    layout = layout_of(text)
    return layout.is_header and not layout.missing


def _has_quote(text: str, separator: str) -> bool:
    return text.startswith('"') or f'{separator}"' in text


def _unquoted(text: str, separator: str) -> list[str] | None:
    """The fields, of which some are in quotes; None if a quote is not closed."""
    if text.count('"') % 2:
        return None
    try:
        rows = list(csv.reader([text], delimiter=separator))
    except csv.Error:
        return None
    return [each.replace("\n", " ") for each in rows[0]] if len(rows) == 1 else None


def _lists_joined(fields: list[str]) -> list[str]:
    """Fields, of which lists of resources and of nodes were split at their commas, as after --delimiter=,."""
    found: list[str] = []
    names: set[str] = set()
    for each in fields:
        name = each.partition("=")[0]
        is_part = "=" in each and has_form("tres", each)
        is_open = bool(found) and found[-1].count("[") > found[-1].count("]")
        if is_open or (is_part and names and name not in names):
            found[-1] += f",{each}"
        else:
            found.append(each)
            names = set()
        if is_part:
            names.add(name)
        elif not is_open:
            names = set()
    return found


def printable(text: str) -> str:
    """Without characters that cannot be printed; tabs separate columns."""
    text = text.rstrip("\r\n")
    # Nearly every line is: the check is ten times as fast as a filter of characters.
    return text if text.isprintable() else "".join(c for c in text if c.isprintable() or c == "\t")
