"""Where the work of a call is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from sil.api.settings import one_of
from sil.workers.execution import Execution
from sil.workers.executor import Executor, Inline

OnFault = Literal["raise", "keep"]


def raises(on_fault: OnFault) -> bool:
    """Whether faults are raised. Raises UserError for another word."""
    return one_of(["raise", "keep"], on_fault, "on_fault") == "raise"


def is_elsewhere(isolate: bool, where: Execution) -> bool:
    """Whether other processes than this one do the work."""
    return isolate or where != Execution()


@contextmanager
def executing(isolate: bool, where: Execution) -> Iterator[Executor]:
    """This process, or others if they are asked for. Raises UserError."""
    if not is_elsewhere(isolate, where):
        yield Inline()
        return
    with where.executor() as executor:
        yield executor
