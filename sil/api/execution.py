"""Where the work of a call is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sil.workers.execution import Execution
from sil.workers.executor import Executor, Inline
from sil.workers.main_module import script_is_not_imported


@contextmanager
def executing(isolate: bool, where: Execution) -> Iterator[Executor]:
    """This process, or others if they are asked for. Raises UserError."""
    if not isolate and where == Execution():
        yield Inline()
        return
    with script_is_not_imported(), where.executor() as executor:
        yield executor
