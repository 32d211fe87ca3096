"""What becomes of faults of schedulers under test."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal, NoReturn

from sil.api.settings import one_of
from sil.runs.composition import faults_to
from sil.world.guard.faults import SchedulerFault

OnFault = Literal["raise", "keep"]


def raised_if(on_fault: OnFault) -> AbstractContextManager[None]:
    """Within this context, faults of runs in this process are raised with their tracebacks, or only kept.
    Raises UserError for another word."""
    return faults_to(_raise) if one_of(["raise", "keep"], on_fault, "on_fault") == "raise" else nullcontext()


def _raise(fault: SchedulerFault) -> NoReturn:
    raise fault
