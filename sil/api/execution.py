"""Where the work of a call is done."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sil.workers.executor import Executor, Inline


@contextmanager
def executing(isolate: bool, workers: int | None, dask: str | None) -> Iterator[Executor]:
    """This process, or others if one of these is given. Raises NoExecutor."""
    if not isolate and workers is None and dask is None:
        yield Inline()
        return
    from sil.workers.runner import selected_executor

    with _script_is_not_imported(), selected_executor(workers, dask) as executor:
        yield executor


@contextmanager
def _script_is_not_imported() -> Iterator[None]:
    """Within this context, new processes do not import the script that starts them, which would run it again:
    what it defines is sent to them by value."""
    main = sys.modules["__main__"]
    hidden: dict[str, Any] = {
        name: vars(main).pop(name) for name in ("__file__", "__spec__") if name in vars(main)
    }
    main.__spec__ = None
    try:
        yield
    finally:
        vars(main).update(hidden)
