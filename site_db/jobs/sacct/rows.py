"""The rows of Slurm's accounting, in any of the forms in which it is printed or saved."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from site_db.files.given import InvalidFile, quoted
from site_db.jobs.logs.logged_job import Refused, Tally
from site_db.jobs.sacct.columns import has_form, kind_of
from site_db.jobs.sacct.command import COMMAND
from site_db.jobs.sacct.header import Layout, aligned, layout_of
from site_db.jobs.sacct.readings import Readings

EXPECTED = f"a header with Start, End, State and JobID or JobIDRaw, as printed by: {COMMAND}"
_USED = """jobid jobidraw user account qos jobname partition submit eligible start end elapsed elapsedraw
    state timelimit timelimitraw reqtres alloctres reqcpus alloccpus ncpus reqmem allocnodes nnodes reqnodes
    nodelist constraints suspended"""
USED = frozenset(_USED.split())
"""The columns from which a job is read."""
TOO_FEW = "fewer fields than the header"
TOO_MANY = "more fields than the header, and no text to which they can belong"
_LONGEST_TEXT = 1_000
"""Lines of a text in quotes."""


class Fields(defaultdict[str, str]):
    """The fields of a row by column; one that the log lacks is empty."""

    def __init__(self, line: int, fields: Iterable[tuple[str, str]], repairs: Iterable[str] = ()) -> None:
        super().__init__(str, fields)
        self.line, self.repairs = line, list(repairs)


@dataclass(frozen=True)
class _Line:
    number: int
    fields: list[str]
    cut: frozenset[str] = frozenset()
    """The columns whose values are cut off, and end in +."""


@dataclass
class _Row:
    """The lines of a row, complete or not; then `may_be` are the columns in which it goes on."""

    lines: list[_Line] = field(default_factory=list)
    may_be: int = 0


def rows_of(lines: Iterable[str], path: Path, tally: Tally) -> Iterator[Fields]:
    """The rows below the first header, which is the first line that is not blank; below a further header, as
    in concatenated logs, those of its columns. `tally` counts the rows that are refused.

    Raises InvalidFile for a file that does not begin with a header.
    """
    numbered: Iterator[tuple[int, str]] = (
        (number, text) for number, raw in enumerate(lines, start=1) if (text := printable(raw)).strip()
    )
    first = next(numbered, None)
    if first is None:
        raise InvalidFile(f"{path}: the file is empty; expected {EXPECTED}")
    number, header = first
    second = next(numbered, None)
    layout = (aligned(header, second[1]) if second else None) or layout_of(header)
    if layout.missing:
        lack = (
            f"has no column {' and no column '.join(layout.missing)}"
            if layout.is_header
            else "is not a header"
        )
        raise InvalidFile(f"{path}, line {number}: {quoted(header.strip())} {lack}; expected {EXPECTED}")
    if second is not None and not layout.widths:
        numbered = chain([second], numbered)
    while True:
        table = _Table(layout, tally, numbered)
        yield from table.rows(header.strip())
        if table.next_header is None:
            return
        header, numbered = table.next_header, table.rest
        layout = layout_of(header)


def printable(text: str) -> str:
    """Without characters that cannot be printed; tabs separate columns."""
    text = text.rstrip("\r\n")
    # Nearly every line is: the check is ten times as fast as a filter of characters.
    return text if text.isprintable() else "".join(c for c in text if c.isprintable() or c == "\t")


class _Table:
    """The rows below one header.

    A row whose number of fields is that of the columns, or whose surplus belongs to texts, is complete in its
    line. What follows and is not, goes on in the row before, if that ends with a text, or begins a row that
    further lines complete.
    """

    def __init__(self, layout: Layout, tally: Tally, numbered: Iterator[tuple[int, str]]) -> None:
        self._layout, self._tally, self.rest = layout, tally, numbered
        self._readings = Readings(layout.columns, USED, layout.separator)
        self.next_header: str | None = None

    def rows(self, header: str) -> Iterator[Fields]:
        row, begun = _Row(), _Row()
        for line in self._lines(header):
            if begun.lines and not self._is_whole(line):
                may_be, is_complete = self._readings.after(line.fields, begun.may_be)
                if is_complete:
                    yield from self._read(row)
                    row, begun = _Row([*begun.lines, line]), _Row()
                    continue
                if may_be:
                    begun.lines.append(line)
                    begun.may_be = may_be
                    continue
            self._refuse(begun)
            begun = _Row()
            if self._is_complete(line):
                yield from self._read(row)
                row = _Row([line])
            elif may_be := self._readings.after(line.fields)[0]:
                begun = _Row([line], may_be)
            elif row.lines and self._readings.ends_with_text:
                row.lines.append(line)
            else:
                self._refuse(_Row([line]))
        self._refuse(begun)
        yield from self._read(row)

    def _is_whole(self, line: _Line) -> bool:
        n = len(self._layout.columns)
        if len(line.fields) == n:
            return self._readings.fits(line.fields)
        return len(line.fields) > n and self._readings.after(line.fields)[1]

    def _is_complete(self, line: _Line) -> bool:
        """Also if some of its fields cannot be read."""
        return len(line.fields) == len(self._layout.columns) or self._is_whole(line)

    def _refuse(self, row: _Row) -> None:
        n = len(self._layout.columns)
        for line in row.lines:
            self._tally.refuse(TOO_FEW if len(line.fields) < n else TOO_MANY, line.number)

    def _read(self, row: _Row) -> Iterator[Fields]:
        if not row.lines:
            return
        first, columns = row.lines[0], self._layout.columns
        if len(row.lines) == 1 and len(first.fields) == len(columns):
            yield self._as_it_is(first)
            return
        try:
            found = self._readings.found([line.fields for line in row.lines])
        except Refused as refused:
            self._tally.refuse(refused.reason, first.number)
            return
        repairs = [f"a {self._separator} inside {found.repaired}"] if found.has_separators else []
        repairs += [f"an end of a line inside {found.repaired}"] if found.has_line_ends else []
        yield Fields(first.number, found.fields.items(), repairs)

    def _as_it_is(self, line: _Line) -> Fields:
        # From the last to the first: of columns with the same name, the first counts.
        fields = zip(reversed(self._layout.columns), map(str.strip, reversed(line.fields)), strict=True)
        row = Fields(line.number, fields)
        for column in sorted(line.cut & USED):
            row.repairs.append(f"{column} is cut off (+); print whole values with sacct -P")
            if kind_of(column) in ("tres", "nodes", "count", "duration", "time"):
                row[column] = ""
        return row

    @property
    def _separator(self) -> str:
        return {"\t": "tab", " ": "blank"}.get(self._layout.separator, self._layout.separator)

    def _lines(self, header: str) -> Iterator[_Line]:
        """The fields of each line, or of lines that quotes join, without the header where it is repeated."""
        layout = self._layout
        while (following := next(self.rest, None)) is not None:
            number, text = following
            if text.strip() == header or (layout.widths and not set(text) - set("- ")):
                continue
            if "jobid" in text.lower() and _is_other_header(text):
                self.next_header = text
                return
            if layout.widths:
                yield self._slices(number, text)
            elif layout.may_be_quoted and _has_quote(text, layout.separator):
                joined, unused = _joined_by_quotes(text, self.rest)
                self.rest = chain(unused, self.rest)
                yield _Line(number, _unquoted(joined, layout.separator))
            else:
                yield _Line(number, self._split(text))

    def _split(self, text: str) -> list[str]:
        separator, n = self._layout.separator, len(self._layout.columns)
        text = text if separator == "\t" else text.replace("\t", "")
        fields = text.split() if separator == " " else text.split(separator)
        return _lists_joined(fields) if separator == "," and len(fields) > n else fields

    def _slices(self, number: int, text: str) -> _Line:
        """Slurm counts the bytes of a value, so that other than ASCII letters move what follows."""
        fields = [text[begin:end] for begin, end in self._layout.widths]
        if not text.isascii() and not self._readings.fits(fields):
            data = text.encode()
            fields = [data[begin:end].decode(errors="replace") for begin, end in self._layout.widths]
        cut = frozenset(
            column
            for column, value, (begin, end) in zip(
                self._layout.columns, fields, self._layout.widths, strict=True
            )
            if value.endswith("+") and len(value.strip()) == end - begin and column != "state"
        )
        return _Line(number, fields, cut)


def _is_other_header(text: str) -> bool:
    layout = layout_of(text)
    return layout.is_header and not layout.missing


def _has_quote(text: str, separator: str) -> bool:
    return text.startswith('"') or f'{separator}"' in text


def _joined_by_quotes(text: str, rest: Iterator[tuple[int, str]]) -> tuple[str, list[tuple[int, str]]]:
    """A line with those to which its quotes extend, and what was read in vain where none closes them."""
    lines: list[tuple[int, str]] = []
    joined = text
    while joined.count('"') % 2 and len(lines) < _LONGEST_TEXT and (following := next(rest, None)):
        lines.append(following)
        joined += "\n" + following[1]
    return (text, lines) if joined.count('"') % 2 else (joined, [])


def _unquoted(text: str, separator: str) -> list[str]:
    try:
        rows = list(csv.reader([text], delimiter=separator))
    except csv.Error:
        rows = []
    fields = rows[0] if len(rows) == 1 else text.split(separator)
    return [field.replace("\n", " ") for field in fields]


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
