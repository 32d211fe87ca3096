"""Texts in CSV files, which people open in spreadsheets, where a text that begins like a formula is one. So
it is written after an apostrophe, as is one that begins with an apostrophe. Numbers with a sign stay."""

from __future__ import annotations

import re

FORMULA = r"^[=@+\-\t\r\n'＝＋－＠]"
"""What a formula begins with, or what was written for one."""
NUMBER = r"^[+\-][\d.,]*([eE][+\-]?\d+)?( ?%)?$"
_FORMULA, _NUMBER = re.compile(FORMULA), re.compile(NUMBER)


def escaped(text: str) -> str:
    """The text as it is written."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.match(text) else text


def unescaped(cell: str) -> str:
    """The text that was written so."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell[1:]) else cell
