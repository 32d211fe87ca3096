"""A job's requirement on each of its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

COMMUNICATION_BOUND_BELOW = 0.7
"""Jobs that use less of a CPU in isolation are communication-bound, others computation-bound."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A parallel job as it was measured in isolation: one task on each of `n_tasks` nodes.

    `cpu` is CPU(J), the share of one CPU that a task uses, in (0, 1]; `exe_s` is ExeTime_tot; `memory_mb` is
    per task. CPUtime_tot, per task, is cpu x exe_s. Raises ValueError. Source: Hanzich et al. 2006, sec. 2.
    """

    n_tasks: int
    cpu: float
    memory_mb: float
    exe_s: float

    def __post_init__(self) -> None:
        if self.n_tasks < 1:
            raise ValueError(f"a job has at least one task, not {self.n_tasks}")
        if not (isfinite(self.exe_s) and self.exe_s > 0):
            raise ValueError(f"the execution time of a job is above zero, not {self.exe_s:g} s")
        if not 0 < self.cpu <= 1:
            raise ValueError(
                f"a task uses more than none and at most the whole of one CPU, not {self.cpu:g} of it "
                f"(its CPU time cannot exceed its execution time)"
            )
        if not (isfinite(self.memory_mb) and self.memory_mb >= 0):
            raise ValueError(f"the memory of a task is zero or more, not {self.memory_mb:g} MB")

    @property
    def cpu_s(self) -> float:
        return self.cpu * self.exe_s

    @property
    def communicates(self) -> bool:
        """Whether it is communication-bound."""
        return self.cpu < COMMUNICATION_BOUND_BELOW
