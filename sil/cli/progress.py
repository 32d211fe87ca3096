"""Progress bars. With every update, they also notice lost interrupts."""

from __future__ import annotations

from rich.progress import Progress

from sil.api import calls as in_python
from sil.cli import console
from sil.cli.process import stop_if_interrupted


class TerminalProgress(in_python.ProgressBar):
    """Shows how many tasks are done, and before the first one what is being prepared. Notes are printed."""

    def update(self, **what: object) -> None:
        stop_if_interrupted()
        super().update(**what)

    def notify(self, sentence: str) -> None:
        console.print_note(sentence)


def progress(what: str) -> Progress:
    """A progress bar that counts items of this kind."""
    return in_python.bars(what, console.err)
