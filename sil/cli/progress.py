"""Progress bars. With every update, they also notice lost interrupts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import Progress, TextColumn, TimeElapsedColumn

from scheduler.messages import printable
from sil.api.progress import DESCRIPTION, bars
from sil.api.progress import ProgressBar as Bar
from sil.cli import console
from sil.cli.process import stop_if_interrupted


class ProgressBar(Bar):
    """Shows how many tasks are done, and before the first one what is being prepared. Notes are printed."""

    def __init__(self, progress: Progress, name: str) -> None:
        stop_if_interrupted()
        super().__init__(progress, name)

    def progressed(self, done: int, total: int | None) -> None:
        stop_if_interrupted()
        super().progressed(done, total)

    def notify(self, sentence: str) -> None:
        console.print_note(sentence)


def progress(what: str) -> Progress:
    """A progress bar that counts items of this kind."""
    return bars(what, console.err)


class PlanProgress(ProgressBar):
    """Shows also which question of a plan is being answered, and how many options are unsettled."""

    def look(self, scheduler: str, question: str, replications: int, unsettled: int) -> None:
        stop_if_interrupted()
        self._doing = (
            f"{self._name}, {question} under {printable(scheduler)}: "
            f"{unsettled} to settle after {replications} each"
        )
        self._progress.update(self._bar, description=self._doing)


@contextmanager
def plan_progress(name: str) -> Iterator[PlanProgress]:
    """The display while a plan is answered, whose number of runs is not known before."""
    columns = (DESCRIPTION, TextColumn("{task.completed} runs"), TimeElapsedColumn())
    with Progress(*columns, console=console.err, transient=True) as progress:
        yield PlanProgress(progress, name)
