"""Errors in files that the user gives, and options in their messages, as the caller gives them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from scheduler.messages import UserError, printable

MAX_VALUE = 1e15
"""The greatest number of seconds, megabytes or jobs, in a file or in the database."""


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


_options: ContextVar[Collection[str] | None] = ContextVar("options", default=None)
"""The options of the command that runs; None in a program in Python."""


@contextmanager
def of_command(options: Collection[str]) -> Iterator[None]:
    """Within this context, readers are called by a command with these options."""
    before = _options.set(options)
    try:
        yield
    finally:
        _options.reset(before)


def given(option: str, value: str | bool = "") -> str:
    """How the caller gives an option like `--too-large`: in Python, as a keyword argument. Empty if the
    command has none. A flag is True."""
    options = _options.get()
    if options is None:
        keyword = _KEYWORDS.get(option) or option.lstrip("-").replace("-", "_")
        literal = f'"{value}"' if isinstance(value, str) and value else value
        return f"{keyword}={literal}"
    if option not in options:
        return ""
    return f"{option} {value}" if isinstance(value, str) and value else option


def remedy(clause: str, *options: tuple[str, str | bool]) -> str:
    """A clause with the options that the caller has, at `{}`, to be appended; empty if there are none."""
    known = [text for option in options if (text := given(*option))]
    return clause.format(" or ".join(known)) if known else ""


_KEYWORDS = {
    "--out": "folder",
    "--scheduler": "schedulers",
    "--slurm-step": "slurm_step_s",
    "--pause-at": "pause_at_s",
}
"""The names of options in Python, where they differ."""
