"""Where runs are executed: the settings, and the executor for them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated

from scheduler import UserError
from sil.declared import Setting, Settings
from sil.workers.executor import Executor


@dataclass(frozen=True)
class Execution(Settings):
    """Where runs are executed.

    * `workers`: Processes to run on. The results do not depend on the number. Default: one per core.
    * `dask`: Run on a Dask cluster instead, with the same results: tcp://HOST:8786, or its scheduler file.
    """

    workers: Annotated[int | None, Setting(least=1)] = None
    dask: str | None = None

    def executor(self) -> Executor:
        """Processes of this computer, or the workers of a Dask scheduler. Raises UserError."""
        if self.dask is None:
            from sil.workers.processes import Processes

            return Processes(self.workers or os.cpu_count() or 1)
        try:
            from sil.workers.dask_executor import Dask
        except ModuleNotFoundError as error:
            if error.name != "distributed":
                raise
            message = "--dask needs the package distributed; install this one with [distributed]"
            raise UserError(message) from None
        return Dask(self.dask)
