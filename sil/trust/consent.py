"""Whether what files name may be run: it is trusted, or the user is asked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from scheduler import UserError, printable
from sil.trust.foreign_code import Named
from sil.trust.trusted_list import list_path, read_list, remember

Ask = Callable[[Sequence[Named]], None]
"""Raises UserError unless the user allows what is named."""


def permit(found: Sequence[Named], ask: Ask) -> None:
    """Ask about what the user's list does not cover. Raises UserError, and InvalidFile for a wrong list."""
    if found and (open_questions := [named for named in found if not read_list().covers(named)]):
        ask(open_questions)


def refuse(how_to_allow: str) -> Ask:
    """Without a user who can answer, nothing is allowed; the message says how it could be."""

    def answer(named: Sequence[Named]) -> None:
        would = ", and ".join(f"{one.where} would run {'; '.join(one.code)}" for one in named)
        raise UserError(
            f"{would}: this can do whatever you can; if you trust it, {how_to_allow}, or list its folder in "
            f"{list_path()}"
        )

    return answer


def ask_in_terminal(named: Sequence[Named]) -> None:
    """List what would be run, and remember a yes. Where there is no terminal, nothing is allowed."""
    with_trust = "repeat the command with --trust"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        refuse(with_trust)(named)
    for one in named:
        _show(f"{one.where} would run code that neither comes with sil nor is an installed plug-in:\n")
        for code in one.code:
            _show(f"  {code}\n")
    _show("It can do whatever you can. Run it? [y/N] ")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UserError("nothing was run")
    try:
        _show(f"You will not be asked about this again: it is listed in {remember(named)}.\n")
    except OSError as error:
        _show(f"You will be asked again, since {list_path()} cannot be written: {error.strerror}.\n")


def _show(text: str) -> None:
    print(printable(text), end="", file=sys.stderr, flush=True)
