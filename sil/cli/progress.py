"""Progress bars. With every update, they also notice lost interrupts."""

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

from sil.cli import console
from sil.cli.start.interrupts import stop_if_interrupted
from sil.workers.executor import Listener


class ProgressBar(Listener):
    """Shows how many tasks are done, and before the first one what is being prepared."""

    def __init__(self, progress: Progress, name: str) -> None:
        stop_if_interrupted()
        self._progress = progress
        self._name = self._doing = name
        self._done: int | None = None
        self._bar = progress.add_task(f"{name}: reading", total=None)

    def progressed(self, done: int, total: int | None) -> None:
        stop_if_interrupted()
        what = f"{self._name}: starting" if self._done in (None, done) else self._doing
        self._done = done
        self._progress.update(self._bar, completed=done, total=total, description=what)

    def notify(self, sentence: str) -> None:
        console.print_note(sentence)


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
        console=console.err,
        transient=True,
    )


class PlanProgress(ProgressBar):
    """Shows also which question of a plan is being answered, and how many options are unsettled."""

    def look(self, scheduler: str, question: str, replications: int, unsettled: int) -> None:
        stop_if_interrupted()
        self._doing = (
            f"{self._name}, {question} under {scheduler}: {unsettled} to settle after {replications} each"
        )
        self._progress.update(self._bar, description=self._doing)


@contextmanager
def plan_progress(name: str) -> Iterator[PlanProgress]:
    """The display while a plan is answered, whose number of runs is not known before."""
    columns = (TextColumn("{task.description}"), TextColumn("{task.completed} runs"), TimeElapsedColumn())
    with Progress(*columns, console=console.err, transient=True) as progress:
        yield PlanProgress(progress, name)
