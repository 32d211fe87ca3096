"""How a scheduler or resource manager under test is measured, limited and charged in one run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from scheduler.model import JobId
from scheduler.ports import Clock
from sil.world.guard.decision_cost import Charge

Timing = tuple[float, int, int, int, float, float, float]
"""One measured decision: simulated time; numbers of jobs, resources and decisions; seconds of wall and CPU
time, both including garbage collection, and of garbage collection. The columns of TIMINGS_SCHEMA."""


class DecisionLog(Protocol):
    """Records what became of each job of a problem, where that has changed since the last decision."""

    def note_reason(self, time_s: float, job: JobId, why: str) -> None:
        """A job was left waiting."""
        ...

    def note_mapping(self, time_s: float, job: JobId, resource: int, start_s: float, takes_s: float) -> None:
        """A job was mapped to a resource."""
        ...


@dataclass(frozen=True, eq=False)
class Guard:
    """A stopwatch and a time limit.

    Measurements go to `note`; CPU time is read from `cpu_time`, or not measured (NaN). `charge` charges wall
    time to simulated time. `decision_log` records mappings and wait reasons.
    """

    clock: Clock
    limit_s: float
    note: Callable[[Timing], None] = lambda timing: None
    charge: Charge | None = None
    decision_log: DecisionLog | None = None
    cpu_time: Callable[[], float] | None = time.process_time
