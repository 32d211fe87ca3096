"""What becomes of faults of schedulers under test."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal, NoReturn

from sil.api.settings import one_of
from sil.runs.composition import faults_to
from sil.world.guard.faults import SchedulerFault, told

OnFault = Literal["raise", "keep"]


def raised_if(on_fault: OnFault) -> AbstractContextManager[None]:
    """Within this context, faults of runs in this process are raised with their tracebacks, or only kept.
    Raises UserError for another word."""
    return (
        faults_to(raise_named)
        if one_of(["raise", "keep"], on_fault, "on_fault") == "raise"
        else nullcontext()
    )


def raise_named(fault: SchedulerFault, scheduler: str) -> NoReturn:
    """Raise a fault whose message says which scheduler it was, and when."""
    fault.args = (told(scheduler, fault.rule, fault.job, fault.time_s, fault.message),)
    raise fault
