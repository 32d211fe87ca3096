"""The progress bar of commands that take long."""

from __future__ import annotations

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sil.cli.console import err, print_note
from sil.experiment.listener import Listener


class ProgressBar(Listener):
    """Shows how something goes on."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress = progress
        self._bar = progress.add_task(name, total=None)

    def started(self, done: int, total: int) -> None:
        self._progress.update(self._bar, completed=done, total=total)

    def progressed(self, done: int) -> None:
        self._progress.update(self._bar, completed=done)

    def told(self, sentence: str) -> None:
        print_note(sentence)


def progress(what: str) -> Progress:
    """Of so many of something."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(what),
        TimeRemainingColumn(),
        console=err,
        transient=True,
    )
