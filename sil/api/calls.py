"""How the work of a call is done, and its progress shown, in terminals and notebooks."""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from markupsafe import escape
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

from scheduler.messages import printable
from sil.declared import Setting
from sil.workers.execution import Execution
from sil.workers.executor import Executor, Inline, Listener


@dataclass(frozen=True, kw_only=True)
class Working(Execution):
    """How the work is done: by worker processes or not, with a progress bar or without.

    * `progress`: Show the progress, in terminals and notebooks.
    """

    progress: bool = True

    @property
    def is_elsewhere(self) -> bool:
        """Whether other processes than this one do the work."""
        return True

    @contextmanager
    def listened(self, name: str, unit: str) -> Iterator[tuple[Listener, Executor]]:
        """A listener that shows progress, and what does the work. Raises UserError."""
        with progress_listener(name, unit, self.progress) as listener:
            if not self.is_elsewhere:
                yield listener, Inline()
                return
            with self.executor() as executor:
                yield listener, executor


@dataclass(frozen=True, kw_only=True)
class Calling(Working):
    """How the work is done, and what becomes of faults.

    * `on_fault`: A scheduler that breaks a rule or raises an exception ends the call with SchedulerFault
      ("raise"), whose cause is that exception, or is noted in `faults` of the result ("keep").
    """

    on_fault: Annotated[str, Setting(known=("raise", "keep"))] = "raise"

    @property
    def raises_faults(self) -> bool:
        return self.on_fault == "raise"


@dataclass(frozen=True, kw_only=True)
class Isolating(Calling):
    """How the work is done: in this process, unless others are asked for.

    * `isolate`: Run your schedulers in processes of their own, so that nothing they do affects this one. With
      `workers` or `dask` they are isolated.
    """

    isolate: bool = False

    @property
    def is_elsewhere(self) -> bool:
        return self.isolate or self.workers is not None or self.dask is not None


SHOWN_EVERY_S = 0.2
"""The time between updates in notebooks, in seconds."""


class ProgressBar(Listener):
    """Shows how many items are done, and before the first one what is being prepared. Notes are warnings."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress = progress
        self._name = self._doing = printable(name)
        self._bar = progress.add_task("", total=None)
        self.update(description=f"{self._name}: reading")

    def update(self, **what: Any) -> None:
        """Change what is shown."""
        self._progress.update(self._bar, **what)

    def progressed(self, done: int, total: int | None) -> None:
        what = self._doing if done else f"{self._name}: starting"
        self.update(completed=done, total=total, description=what)

    def look(self, scheduler: str, question: str, replications: int, unsettled: int) -> None:
        """Shows also which question of a plan is being answered, and how many options are unsettled."""
        self._doing = (
            f"{self._name}, {question} under {printable(scheduler)}: "
            f"{unsettled} to settle after {replications} each"
        )
        self.update(description=self._doing)

    def notify(self, sentence: str) -> None:
        warn(sentence)


def bars(unit: str, console: Console) -> Progress:
    """Progress bars that count items of this kind, and disappear in the end."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),  # in which names stand for themselves
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TextColumn("elapsed,"),
        TimeRemainingColumn(),
        TextColumn("remaining"),
        console=console,
        transient=True,
    )


@contextmanager
def progress_listener(name: str, unit: str, is_shown: bool) -> Iterator[Listener]:
    """The listener of some work; notes become warnings."""
    console = Console(stderr=True)
    if is_shown and console.is_jupyter:
        with closing(NotebookBar(name, unit)) as bar:
            yield bar
    elif is_shown and console.is_terminal:
        with bars(unit, console) as progress:
            yield ProgressBar(progress, name)
    else:
        yield Warner()


class Warner(Listener):
    """Shows no progress; notes become warnings."""

    def notify(self, sentence: str) -> None:
        warn(sentence)


class NotebookBar(Warner):
    """A progress bar below a notebook's cell, which disappears in the end; Rich's needs ipywidgets there."""

    def __init__(self, name: str, unit: str) -> None:
        from IPython.display import display

        self._name, self._unit = name, unit
        self._began_s = self._shown_s = time.monotonic()
        self._shown = display(_content(f"{name}: reading"), raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def progressed(self, done: int, total: int | None) -> None:
        now_s = time.monotonic()
        if now_s - self._shown_s < SHOWN_EVERY_S:
            return
        self._shown_s = now_s
        of_all, share = ("", "") if total is None else (f" of {total:,}", f' value="{done}" max="{total}"')
        elapsed_s = now_s - self._began_s
        left = f", {elapsed_s * (total - done) / done:.0f} s remaining" if total and done else ""
        counted = f"{done:,}{of_all} {self._unit}, {elapsed_s:.0f} s elapsed{left}"
        self._shown.update(_content(f"{self._name}: {counted}", f"<progress{share}></progress>"), raw=True)

    def close(self) -> None:
        self._shown.update(_content(""), raw=True)


def _content(text: str, bar: str = "") -> dict[str, str]:
    text = printable(text)
    return {"text/plain": text, "text/html": f"{bar} {escape(text)}".strip()}


def warn(sentence: str) -> None:
    """Warn the caller of the API, wherever in the testbed this is called."""
    depth, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (
        "sil",
        "contextlib",
    ):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(printable(sentence), stacklevel=depth)
