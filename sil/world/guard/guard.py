"""How a scheduler or resource manager under test is measured, limited and charged in one run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from scheduler.ports import Clock
from sil.trace.recorder import TraceRecorder
from sil.world.guard.decision_cost import Charge

Timing = tuple[float, int, int, int, float, float, float]
"""One measured decision: the values of MEASURED_SCHEMA."""


@dataclass(frozen=True, eq=False)
class Guard:
    """A stopwatch and a time limit.

    Measurements go to `note`; CPU time is read from `cpu_time`, or not measured (NaN). `charge` charges wall
    time to simulated time. `decision_log` records mappings and wait reasons that have changed.
    """

    clock: Clock
    limit_s: float
    note: Callable[[Timing], None] = lambda timing: None
    charge: Charge | None = None
    decision_log: TraceRecorder | None = None
    cpu_time: Callable[[], float] | None = time.process_time
