"""Files that the user gives: their text, and errors in them."""

from __future__ import annotations

from pathlib import Path

from scheduler import UserError, printable

MOST = 1e15
"""No number of seconds, megabytes or jobs is greater, in a file or in the database."""


class InvalidFile(UserError):
    """A file that cannot be used. The message has one line for each mistake: file, line, value, expected."""

    def __init__(self, *sentences: str) -> None:
        super().__init__("\n".join(printable(sentence).replace("\n", "\\n") for sentence in sentences))


def read_text(path: Path) -> str:
    """The text of a user's file. Raises InvalidFile if it cannot be read."""
    try:
        # Some editors begin a file with a byte order mark; "-sig" removes it.
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InvalidFile(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidFile(f"{path}: the file cannot be read: {reason}") from None
