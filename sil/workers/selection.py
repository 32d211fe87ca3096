"""The executor that a command's options select."""

from __future__ import annotations

import os
from importlib.util import find_spec

from sil.workers.executor import Executor, NoExecutor
from sil.workers.process_executor import Processes


def selected_executor(workers: int | None = None, dask: str | None = None) -> Executor:
    """`workers` processes of this computer (None: one per core), or the workers of a Dask scheduler: `dask`
    is its address, like tcp://scheduler:8786, or the path of the file that it writes with --scheduler-file.

    Raises NoExecutor.
    """
    if dask is None:
        return Processes(workers or os.cpu_count() or 1)
    try:
        installed = find_spec("distributed") is not None
    except ValueError:  # of a module that cannot be imported
        installed = False
    if not installed:
        raise NoExecutor("--dask needs the package distributed; install this one with [distributed]")
    from sil.workers.dask_executor import Dask

    return Dask(dask)
