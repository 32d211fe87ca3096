"""The rows of Slurm's accounting, in any of the forms in which it is printed or saved."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from site_db.files.input_errors import InvalidFile, quoted
from site_db.jobs.logged import Refused, Tally
from site_db.jobs.sacct.columns import (
    COMMAND,
    NUMBERS,
    SPELLED,
    ColumnLayout,
    aligned,
    has_form,
    kind_of,
    layout_of,
)
from site_db.jobs.sacct.readings import Readings

_LONGEST_TEXT = 1_000
"""The most lines of a text in quotes."""


class LogLine(NamedTuple):
    number: int
    fields: list[str]
    cut: frozenset[str] = frozenset()
    """The columns whose values are cut off, and end in +."""


class LogSection:
    """The lines below one header. `fits` says whether the fields of a line have the forms of columns."""

    def __init__(
        self, layout: ColumnLayout, numbered: Iterator[tuple[int, str]], fits: Callable[[Sequence[str]], bool]
    ) -> None:
        self._layout, self.rest, self._fits = layout, numbered, fits
        self.next_header: str | None = None

    def under(self, header: str) -> Iterator[LogLine]:
        """The fields of each line, or of lines that quotes join, without the header where it is repeated."""
        layout, may_be_quoted = self._layout, self._layout.may_be_quoted
        while (following := next(self.rest, None)) is not None:
            number, text = following
            if text == header or (layout.widths and not set(text) - set("- ")):
                continue
            if "JobID" in text or "jobid" in text or "JOBID" in text:
                other = layout_of(text)
                if other.is_header and not other.missing:
                    self.next_header = text
                    return
            if layout.widths:
                yield self._slices(number, text)
            elif may_be_quoted and (text.startswith('"') or f'{layout.separator}"' in text):
                joined, unused = self._joined_by_quotes(text)
                self.rest = chain(unused, self.rest)
                fields = _unquoted(joined, layout.separator)
                yield LogLine(number, self._split(text) if fields is None else fields)
            else:
                yield LogLine(number, self._split(text))

    def _split(self, text: str) -> list[str]:
        separator, n = self._layout.separator, len(self._layout.columns)
        text = text if separator == "\t" else text.replace("\t", "")
        text = text.replace("|(null)", "|")  # of squeue
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
            fields = self._split(following[1])
            if len(fields) == len(self._layout.columns) and self._fits(fields):
                return text, lines
        return (text, lines) if joined.count('"') % 2 else (joined, [])

    def _slices(self, number: int, text: str) -> LogLine:
        """The fields of a line in aligned columns. Slurm counts the bytes of a value, so that other than
        ASCII letters move what follows."""
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
        return LogLine(number, fields, cut)


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
    """A text without characters that cannot be printed; tabs separate columns."""
    text = text.rstrip("\r\n")
    # Nearly every line is: the check is ten times as fast as a filter of characters.
    return text if text.isprintable() else "".join(c for c in text if c.isprintable() or c == "\t")


EXPECTED = f"a header with Start, End, State and JobID or JobIDRaw, as printed by: {COMMAND}"
_USED = """jobid jobidraw user account qos jobname partition submit eligible start end elapsed elapsedraw
    state timelimit timelimitraw reqtres alloctres reqcpus alloccpus ncpus reqmem allocnodes nnodes reqnodes
    nodelist constraints suspended"""
USED = frozenset(_USED.split())
"""The columns from which a job is read."""
NO_NUMBER = "there is no job id"
TOO_FEW = "fewer fields than the header"
BEFORE, AFTER = "the line before it may belong to it", "the line after it may belong to it"
TOO_MANY = "more fields than the header, and no text to which they can belong"


class Fields(dict[str, str]):
    """The fields of a row by column; one that the log lacks is empty."""

    __slots__ = ("line", "repairs")

    def __init__(
        self, line: int, fields: Iterable[tuple[str, str]] | Mapping[str, str], repairs: Iterable[str] = ()
    ) -> None:
        super().__init__(fields)
        self.line, self.repairs = line, list(repairs)

    def __missing__(self, column: str) -> str:
        return ""


@dataclass(slots=True)
class _Row:
    """The lines of a row, complete or not."""

    lines: list[LogLine] = field(default_factory=list)
    may_be: int | None = None
    """The columns in which it may go on, once they are known."""
    is_complete: bool = False
    """Whether it is with these lines, once that is known."""
    tail: list[LogLine] = field(default_factory=list)
    """Further lines, with which it would not be complete."""
    before: int = 0
    """The columns that are uncertain since the line before may belong to it."""
    after: int = 0
    """The columns that are uncertain since a line after it may belong to it."""


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
        yield from table.rows(header)
        if table.lines.next_header is None:
            return
        header, numbered = table.lines.next_header, table.lines.rest
        layout = layout_of(header)


class _Table:
    """The rows below one header.

    A row whose number of fields is that of the columns, or whose surplus belongs to texts, is complete in its
    line. What follows and is not, goes on in the row before, if that ends with a text, or begins a row that
    further lines complete.
    """

    def __init__(self, layout: ColumnLayout, tally: Tally, numbered: Iterator[tuple[int, str]]) -> None:
        self._layout, self._tally = layout, tally
        self._readings = Readings(layout.columns, USED, layout.separator)
        # From the last to the first: of columns with the same name, the first counts.
        self._backwards = layout.columns[::-1]
        # Each is looked up in each row: to have them in the dictionary is faster than `__missing__`.
        self._absent = dict.fromkeys(USED - {*layout.columns, *NUMBERS, "user"}, "")
        self.lines = LogSection(layout, numbered, self._readings.fits)

    def rows(self, header: str) -> Iterator[Fields]:
        row, begun, doubt = _Row(), _Row(), 0
        for line in self.lines.under(header):
            if begun.lines and not self._is_whole(line):
                begun.may_be, is_complete = self._readings.after(line.fields, begun.may_be or 0)
                begun.lines.append(line)
                if is_complete:
                    yield from self._read(row)
                    if row.lines and self._readings.free & 1 and self._readings.last_text:
                        begun.before |= 1
                    row, begun = begun, _Row()
                    continue
                if begun.may_be:
                    continue
                begun.lines.pop()
            if begun.lines:
                doubt, begun = self._give_up(begun, row, line), _Row()
            if self._is_complete(line):
                if row.lines:
                    yield from self._read(row)
                row, doubt = _Row([line], before=doubt), 0
            elif self._readings.begins(line.fields):
                begun, doubt = _Row([line], self._readings.after(line.fields)[0], before=doubt), 0
            else:
                doubt = self._doubt_after(1, None)
                if not self._goes_on(row, line):
                    self._refuse([line])
                elif self._readings.free & 1:
                    row.after |= self._readings.last_text
        if begun.lines:
            self._give_up(begun, row, None)
        yield from self._read(row)

    def _goes_on(self, row: _Row, line: LogLine) -> bool:
        """Whether a line, perhaps with further ones, is the rest of a row. A row that ends with a text always
        goes on; of another one that is complete without the line, it is uncertain."""
        if not row.lines:
            return False
        if row.may_be is None:
            row.may_be = 1
            for each in row.lines:
                row.may_be, row.is_complete = self._readings.after(each.fields, row.may_be)
        may_be, is_complete = self._readings.after(line.fields, row.may_be)
        if not may_be and not is_complete:
            return False
        row.may_be = may_be
        row.tail.append(line)
        if is_complete and row.is_complete and not self._readings.last_text:
            row.after = self._readings.every
        elif is_complete:
            row.lines += row.tail
            row.tail = []
        return True

    def _give_up(self, begun: _Row, row: _Row, following: LogLine | None) -> int:
        """Give up what seemed to begin a row. It is left out, although it may be a text at the end of the row
        before, which is then uncertain. Returns the uncertain columns of the next row."""
        last_text = self._readings.last_text
        for line in begun.lines:
            if last_text or not self._goes_on(row, line):
                self._refuse([line])
        if row.lines and last_text:
            lines = [each.fields for each in (*row.lines, *begun.lines)]
            differs = self._readings.may_differ(lines)
            row.after |= self._readings.every if differs else last_text
        return self._doubt_after(begun.may_be or 0, following)

    def _doubt_after(self, may_be: int, line: LogLine | None) -> int:
        """The uncertain columns of the row after a line that ends no row, but perhaps in a text of these."""
        fields = line.fields if line is not None and self._is_complete(line) else None
        return self._readings.reached(may_be, fields)

    def _is_whole(self, line: LogLine) -> bool:
        n = len(self._layout.columns)
        if len(line.fields) == n:
            return self._readings.fits(line.fields)
        return len(line.fields) > n and self._readings.after(line.fields)[1]

    def _is_complete(self, line: LogLine) -> bool:
        """Whether a line is a complete row, also if some of its fields cannot be read, but not without the
        number of a job."""
        if len(line.fields) == len(self._layout.columns):
            return line.fields[self._readings.number].strip() != ""
        return self._is_whole(line)

    def _refuse(self, lines: Iterable[LogLine]) -> None:
        n = len(self._layout.columns)
        for line in lines:
            surplus = len(line.fields) - n
            self._tally.refuse(TOO_FEW if surplus < 0 else TOO_MANY if surplus else NO_NUMBER, line.number)

    def _read(self, row: _Row) -> Sequence[Fields]:
        """The fields, if those that are used are certain; other uncertain ones are empty."""
        if row.tail:
            self._refuse(row.tail)
        if not row.lines:
            return ()
        first, columns = row.lines[0], self._layout.columns
        for uncertain, why in ((row.before, BEFORE), (row.after, AFTER)):
            if uncertain & self._readings.used:
                self._tally.refuse(why, first.number)
                return ()
        if len(row.lines) == 1 and len(first.fields) == len(columns):
            found = self._as_it_is(first)
        else:
            try:
                fields, repairs = self._readings.found([line.fields for line in row.lines])
            except Refused as refused:
                self._tally.refuse(str(refused), first.number)
                return ()
            found = Fields(first.number, fields, repairs)
        if row.before | row.after:
            found.update(dict.fromkeys(self._readings.names(row.before | row.after), ""))
        return (found,)

    def _as_it_is(self, line: LogLine) -> Fields:
        row = Fields(line.number, self._absent)
        row.update(zip(self._backwards, map(str.strip, reversed(line.fields)), strict=True))
        for column in sorted(line.cut & USED) if line.cut else ():
            row.repairs.append(f"{SPELLED[column]} is cut off (+); print whole values with sacct -P")
            if kind_of(column) in ("tres", "nodes", "count", "duration", "time"):
                row[column] = ""
        return row
