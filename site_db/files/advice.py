"""Options in messages of readers, as their caller gives them: on a command line, or in Python."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_options: ContextVar[Collection[str] | None] = ContextVar("options", default=None)
"""Those of the command that runs; None in a program in Python."""


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
        return f"{keyword}={_literal(value)}"
    if option not in options:
        return ""
    return f"{option} {value}" if isinstance(value, str) and value else option


def remedy(clause: str, *options: tuple[str, str | bool]) -> str:
    """A clause with the options that the caller has, at `{}`, to be appended; empty if there are none."""
    known = [text for option in options if (text := given(*option))]
    return clause.format(" or ".join(known)) if known else ""


_KEYWORDS = {"--out": "folder"}
"""In Python, where they have other names."""


def _literal(value: str | bool) -> str:
    if isinstance(value, bool):
        return str(value)
    return f'"{value}"' if value else ""
