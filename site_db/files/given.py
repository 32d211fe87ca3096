"""Errors in files that the user gives."""

from __future__ import annotations

from scheduler import UserError, printable

MOST = 1e15
"""No number of seconds, megabytes or jobs is greater, in a file or in the database."""


class InvalidFile(UserError):
    """A file that cannot be used. The message has one line for each mistake: file, line, value, expected."""

    def __init__(self, *sentences: str) -> None:
        super().__init__("\n".join(printable(sentence).replace("\n", "\\n") for sentence in sentences))


def shortened(sentence: str, most: int = 500) -> str:
    """A sentence without its middle, if it quotes a long text of a file."""
    return sentence if len(sentence) <= most else f"{sentence[: most // 2]}...{sentence[-most // 2 :]}"


def quoted(text: str) -> str:
    """A text of a file, short and printable, for a message."""
    found = printable(text.strip()).replace("\n", "\\n")
    return f"'{found}'" if len(found) <= 60 else f"'{found[:57]}...'"
