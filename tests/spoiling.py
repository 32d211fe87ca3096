"""Ways to spoil a good schedule that hold for all kinds of nodes."""

from __future__ import annotations

from decimal import Decimal

from scheduler.model import Schedule
from scheduler.problem import SchedulingProblem


class ByPlainTuples:
    def spoil(self, problem: SchedulingProblem, good: Schedule) -> Schedule:
        return good._replace(placements=tuple(map(tuple, good.placements)))  # type: ignore[arg-type]


class ByNoNumber:
    def spoil(self, problem: SchedulingProblem, good: Schedule) -> Schedule:
        believed = [one._replace(completion_s=Decimal(one.completion_s)) for one in good.placements]  # type: ignore[arg-type]
        return good._replace(placements=tuple(believed))
