"""Progress bars. They also notice lost interrupts: Python drops exceptions raised in callbacks of the garbage
collector and of weak references, frequent while libraries are loaded and databases are read; and some
libraries catch every exception.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

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
from sil.workers.executor import Listener

_is_interrupted = False


def remember_interrupts() -> None:
    """Install the handler of Ctrl-C, unless the process ignores interrupts, as background processes do."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    global _is_interrupted
    _is_interrupted = True
    raise KeyboardInterrupt


def _stop_if_interrupted() -> None:
    """Called with every progress update. Raises KeyboardInterrupt if an earlier one got lost."""
    global _is_interrupted
    if _is_interrupted:
        _is_interrupted = False
        raise KeyboardInterrupt


class ProgressBar(Listener):
    """Shows how many tasks are done, and before the first one what is being prepared."""

    def __init__(self, progress: Progress, name: str) -> None:
        _stop_if_interrupted()
        self._progress = progress
        self._name = self._doing = name
        self._done: int | None = None
        self._bar = progress.add_task(f"{name}: reading", total=None)

    def progressed(self, done: int, total: int | None) -> None:
        _stop_if_interrupted()
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
        _stop_if_interrupted()
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
