"""How the work of a call is done: the settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from sil.declared import Setting
from sil.workers.execution import Execution
from sil.workers.executor import Executor, Inline, Listener


@dataclass(frozen=True, kw_only=True)
class Working(Execution):
    """In processes of their own, with or without a bar.

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
        from sil.api.progress import shown

        with shown(name, unit, self.progress) as listener:
            if not self.is_elsewhere:
                yield listener, Inline()
                return
            with self.executor() as executor:
                yield listener, executor


@dataclass(frozen=True, kw_only=True)
class Calling(Working):
    """What becomes of faults, too.

    * `on_fault`: A scheduler that breaks a rule or raises an exception ends the call with SchedulerFault
      ("raise"), whose cause is that exception, or is noted in `faults` of the result ("keep").
    """

    on_fault: Annotated[str, Setting(known=("raise", "keep"))] = "raise"

    @property
    def raises_faults(self) -> bool:
        return self.on_fault == "raise"


@dataclass(frozen=True, kw_only=True)
class Isolating(Calling):
    """In this process, unless others are asked for.

    * `isolate`: Run your schedulers in processes of their own, so that nothing they do affects this one. With
      `workers` or `dask` they are isolated.
    """

    isolate: bool = False

    @property
    def is_elsewhere(self) -> bool:
        return self.isolate or self.workers is not None or self.dask is not None
