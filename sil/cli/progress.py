"""Progress bars."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from sil.cli.console import err, print_note
from sil.cli.interrupts import stop_if_interrupted
from sil.experiment.listener import Listener


class ProgressBar(Listener):
    """Shows how many tasks are done, and before the first one what is being prepared."""

    def __init__(self, progress: Progress, name: str) -> None:
        stop_if_interrupted()
        self._progress = progress
        self._name = name
        self._bar = progress.add_task(f"{name}: reading", total=None)

    def started(self, done: int, total: int) -> None:
        starting = f"{self._name}: starting workers"
        self._progress.update(self._bar, completed=done, total=total, description=starting)

    def progressed(self, done: int) -> None:
        stop_if_interrupted()
        self._progress.update(self._bar, completed=done, description=self._name)

    def told(self, sentence: str) -> None:
        print_note(sentence)


def progress(what: str) -> Progress:
    """A progress bar that counts items of this kind."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(what),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
    )


class LooksOfAPlan:
    """Shows how many runs are done, and what is not settled yet."""

    def __init__(self, progress: Progress, name: str) -> None:
        stop_if_interrupted()
        self._progress = progress
        self._name = name
        self._bar = progress.add_task(name, total=None)

    def runs(self, done: int) -> None:
        stop_if_interrupted()
        self._progress.update(self._bar, completed=done)

    def look(self, scheduler: str, question: str, replications: int, unsettled: int) -> None:
        stop_if_interrupted()
        what = f"{self._name}, {question} under {scheduler}: {unsettled} to settle after {replications} each"
        self._progress.update(self._bar, description=what)


@contextmanager
def watching(name: str) -> Iterator[LooksOfAPlan]:
    """While a plan is answered."""
    columns = (TextColumn("{task.description}"), TextColumn("{task.completed} runs"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as progress:
        yield LooksOfAPlan(progress, name)
