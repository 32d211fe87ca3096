"""Numbers and texts in the cells of files."""

from __future__ import annotations

import re

_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
MOST_DIGITS = 4_000
"""Python converts no whole number of more than 4,300 digits."""


def is_whole(text: str) -> bool:
    """Whether it is a whole number of at least 0, which `int` converts."""
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS


def whole(text: str) -> int | None:
    """A whole number of up to 18 digits, also as data frames write one, 4.0; None for other texts."""
    if not text.isdigit() and (short := text.rstrip("0")).endswith("."):
        text = short[:-1]
    return int(text) if text.isdigit() and text.isascii() and len(text) <= 18 else None


def is_decimal(text: str) -> bool:
    """Whether it is a number like 12, -0.5 or 1e3, which `float` converts; it may be too great for it."""
    return _DECIMAL.fullmatch(text) is not None


FORMULA = r"^[=@+\-\t\r\n'＝＋－＠]"
"""What a formula begins with, or what was written for one."""
NUMBER = r"^[+\-][\d.,]*([eE][+\-]?\d+)?( ?%)?$"
_FORMULA, _NUMBER = re.compile(FORMULA), re.compile(NUMBER)


def escaped(text: str) -> str:
    """The text as it is written into a CSV file: spreadsheets take one that begins like a formula for one, so
    it is written after an apostrophe, as is one that begins with an apostrophe."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.match(text) else text


def unescaped(cell: str) -> str:
    """The text that was written so."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell[1:]) else cell
