"""Where the work of a call is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sil.policy.settings import whole_number
from sil.workers.executor import Executor, Inline
from sil.workers.main_module import script_is_not_imported


@contextmanager
def executing(isolate: bool, workers: int | None, dask: str | None) -> Iterator[Executor]:
    """This process, or others if one of these is given. Raises UserError, also for an impossible
    number of workers."""
    if workers is not None:
        whole_number(workers, "workers")
    if not isolate and workers is None and dask is None:
        yield Inline()
        return
    from sil.workers.runner import selected_executor

    with script_is_not_imported(), selected_executor(workers, dask) as executor:
        yield executor
