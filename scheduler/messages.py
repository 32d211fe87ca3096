"""Text for people: errors that they can correct, counts and names in sentences, printable text."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any
from unicodedata import category

MAX_SHOWN = 10
MAX_LETTERS = 2_000
"""The length of the longest error message, in characters."""
_NOT_PLAIN = re.compile(r"[^\t\n\x20-\x7e]")


class ShortInNotebooks(Exception):
    """An exception that notebooks show with only the lines of the user's own code, and the message."""

    def _render_traceback_(self) -> list[str]:
        import traceback  # takes time to load

        lines = [frame for error in (self, self.__cause__) if error is not None for frame in _of_user(error)]
        shown = traceback.StackSummary.from_list(lines).format()
        return [line.rstrip("\n") for line in shown] + [f"{type(self).__name__}: {self}"]


class UserError(ShortInNotebooks, ValueError):
    """An error that the user can correct. The message is one sentence for the user."""

    def __str__(self) -> str:
        """The message, shortened, since it may quote a line or a name of any length."""
        text, half = super().__str__(), MAX_LETTERS // 2
        return text if len(text) <= MAX_LETTERS else f"{text[:half]} ... {text[-half:]}"


def _of_user(error: BaseException) -> list[Any]:
    """The lines of the traceback that are neither of IPython, nor of this package or one installed with it,
    nor below these."""
    import traceback

    installed = os.path.dirname(os.path.dirname(__file__))
    found, trace = list[Any](), error.__traceback__
    for frame in traceback.extract_tb(trace):
        assert trace is not None
        name = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        folders = getattr(sys.modules.get(name), "__path__", ())
        if name != "IPython" and not any(os.path.dirname(folder) == installed for folder in folders):
            found.append(frame)
        elif found and name != "IPython":
            break
        trace = trace.tb_next
    return found


def printable(text: str) -> str:
    """The text with characters escaped that a terminal interprets or that are invisible: control characters
    (also escape sequences), bidirectional controls, and surrogates. They are escaped as in TOML and JSON:
    \\u001b. Line ends, tabs and all spaces stay."""
    return text if text.isprintable() else _NOT_PLAIN.sub(_visible, text)


def _visible(found: re.Match[str]) -> str:
    character = found[0]
    if character.isprintable() or category(character) == "Zs":
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def counted(n: int, noun: str) -> str:
    """A count with its noun: "1 cluster", "1,200 job classes"."""
    return f"{n:,} {plural(n, noun)}"


def plural(n: int, noun: str) -> str:
    """The noun after that number: "class" after 1, otherwise "classes"."""
    if n == 1:
        return noun
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


def rounded(amount: float) -> str:
    """An amount in a sentence: "1,200", "33.3"; exact amounts are in tables."""
    return f"{amount:,.1f}".removesuffix(".0")


def abbreviated(names: Sequence[str]) -> str:
    """As many of the names, of which there may be thousands, as a sentence has room for: "a, b, ..."."""
    return ", ".join([*names[:MAX_SHOWN], *(["..."] if len(names) > MAX_SHOWN else [])])


def meant(name: str, known: Iterable[str]) -> str:
    """A question that names the most similar one, if one is: "did you mean 'fcfs'?"; else nothing."""
    from difflib import get_close_matches  # takes time to load

    close = get_close_matches(name, known, n=1)
    return f"did you mean '{close[0]}'?" if close else ""
