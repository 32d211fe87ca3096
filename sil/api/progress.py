"""Progress bars, in terminals and notebooks."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from sil.workers.executor import Listener


class ProgressBar(Listener):
    """Shows how many items are done, and before the first one what is being prepared. Notes are warnings."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress = progress
        self._name = self._doing = name
        self._done: int | None = None
        self._bar = progress.add_task(f"{name}: reading", total=None)

    def progressed(self, done: int, total: int | None) -> None:
        what = f"{self._name}: starting" if self._done in (None, done) else self._doing
        self._done = done
        self._progress.update(self._bar, completed=done, total=total, description=what)

    def notify(self, sentence: str) -> None:
        warn(sentence)


def bars(unit: str, console: Console) -> Progress:
    """Progress bars that count items of this kind, and disappear in the end."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


@contextmanager
def shown(name: str, unit: str, is_shown: bool) -> Iterator[Listener]:
    """The listener of some work; notes become warnings."""
    console = Console(stderr=True)
    in_notebook = console.is_jupyter and find_spec("ipywidgets") is not None
    if not (is_shown and (console.is_terminal or in_notebook)):
        yield Warner()
        return
    with bars(unit, console) as progress:
        yield ProgressBar(progress, name)


class Warner(Listener):
    """Shows no progress; notes become warnings."""

    def notify(self, sentence: str) -> None:
        warn(sentence)


def warn(sentence: str) -> None:
    """Warn the caller of the API, wherever in the testbed this is called."""
    depth, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (
        "sil",
        "contextlib",
    ):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(sentence, stacklevel=depth)
