"""Where the work of a call is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from sil.api.progress import shown
from sil.api.settings import one_of
from sil.workers.execution import Execution
from sil.workers.executor import Executor, Inline, Listener

OnFault = Literal["raise", "keep"]


def raises(on_fault: OnFault) -> bool:
    """Whether faults are raised. Raises UserError for another word."""
    return one_of(["raise", "keep"], on_fault, "on_fault") == "raise"


def is_elsewhere(isolate: bool, where: Execution) -> bool:
    """Whether other processes than this one do the work."""
    return isolate or where != Execution()


@contextmanager
def working(
    name: str, unit: str, progress: bool, isolate: bool, where: Execution
) -> Iterator[tuple[Listener, Executor]]:
    """A listener that shows progress, and what does the work: this process, or others if they are asked for.
    Raises UserError."""
    with shown(name, unit, progress) as listener:
        if not is_elsewhere(isolate, where):
            yield listener, Inline()
            return
        with where.executor() as executor:
            yield listener, executor
