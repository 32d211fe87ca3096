"""The lines of keys and values in a TOML text, which the standard parser does not give."""

from __future__ import annotations

import re
import tomllib
from typing import Any

Location = tuple[int | str, ...]

_BLANK = re.compile(r"(?:\s|#[^\n]*)*")
_KEYS = re.compile(r"""(?:"(?:\\.|[^"\\\n])*"|'[^'\n]*'|[A-Za-z0-9_.\- \t])+""")
_EQUALS, _OPENING, _CLOSING = re.compile("="), re.compile(r"\[\[?"), re.compile(r"\]\]?")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})' r"|'''.*?'''(?:'{0,2})" r'|"(?:\\.|[^"\\\n])*"' r"|'[^'\n]*'",
    re.DOTALL,
)
_OTHER_SCALAR = re.compile(r"[^\s,\]}#][^,\]}#\n]*")


def line_of(text: str, location: Location) -> int | None:
    """The line (from 1) of the deepest part of `location` that exists in a TOML `text`.

    An element of an array is found by its index, or by its value if it is a string.
    """
    try:
        lines = _Reader(text).lines
    except (ValueError, RecursionError):
        return None
    return next((lines[location[:n]] for n in range(len(location), 0, -1) if location[:n] in lines), None)


class _Reader:
    """Reads valid TOML and records the line of every table header, key and array element.

    Raises ValueError for some invalid texts, not all.
    """

    def __init__(self, text: str) -> None:
        self.lines: dict[Location, int] = {}
        self._text = text
        self._at = 0
        self._line = 1
        self._sizes: dict[Location, int] = {}
        table: Location = ()
        while char := self._next():
            if char == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Location:
        """Read [a.b] or [[a.b]]. Returns the location of that table, with indices of arrays of tables."""
        line = self._line
        brackets = self._take(_OPENING)
        self._next()
        *parents, last = _decoded(self._take(_KEYS))
        self._take(_CLOSING)
        table: Location = ()
        for key in parents:
            table = (*table, key)
            if table in self._sizes:
                table = (*table, self._sizes[table] - 1)
        table = (*table, last)
        if brackets == "[[":
            self._sizes[table] = self._sizes.get(table, 0) + 1
            table = (*table, self._sizes[table] - 1)
        self._note(table, line)
        return table

    def _pair(self, table: Location) -> None:
        line = self._line
        path = (*table, *_decoded(self._take(_KEYS)))
        self._note(path, line)
        self._take(_EQUALS)
        self._value(path)

    def _value(self, path: Location) -> None:
        char = self._next()
        if char == "[":
            self._array(path)
        elif char == "{":
            self._at += 1
            while self._next() != "}":
                self._pair(path)
                self._skip_comma()
            self._at += 1
        elif char in ("'", '"'):
            self._take(_STRING)
        else:
            self._take(_OTHER_SCALAR)

    def _array(self, path: Location) -> None:
        self._at += 1
        index = 0
        while char := self._next():
            if char == "]":
                break
            line, start = self._line, self._at
            self._note((*path, index), line)
            self._value((*path, index))
            if char in ("'", '"'):
                self._note((*path, _parsed(self._text[start : self._at])), line)
            self._skip_comma()
            index += 1
        self._at += 1

    def _note(self, path: Location, line: int) -> None:
        """A table without a header, like `a` of a key `a.b`, has the line of its first key."""
        for n in range(1, len(path)):
            self.lines.setdefault(path[:n], line)
        self.lines[path] = line

    def _next(self) -> str:
        """Skip blanks, line ends and comments. Returns the next character, "" at the end."""
        self._take(_BLANK)
        return self._text[self._at : self._at + 1]

    def _skip_comma(self) -> None:
        if self._next() == ",":
            self._at += 1

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise ValueError("this is not TOML")
        self._at = match.end()
        self._line += match[0].count("\n")
        return match[0]


def _decoded(keys: str) -> list[str]:
    """The single keys of a dotted key, without their quotes."""
    table = tomllib.loads(f"{keys} = 0")
    decoded = []
    while isinstance(table, dict):
        ((key, table),) = table.items()
        decoded.append(key)
    return decoded


def _parsed(value: str) -> Any:
    return tomllib.loads(f"x = {value}")["x"]
