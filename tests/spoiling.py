"""Ways to spoil a good schedule that hold for all kinds of nodes."""

from __future__ import annotations

from decimal import Decimal

from scheduler.model import NodeSchedule
from scheduler.problem import SchedulingProblem


class ByPlainTuples:
    def spoil(self, problem: SchedulingProblem, good: NodeSchedule) -> NodeSchedule:
        return good._replace(starts=tuple(map(tuple, good.starts)))  # type: ignore[arg-type]


class ByCompletionsThatAreNotFloats:
    def spoil(self, problem: SchedulingProblem, good: NodeSchedule) -> NodeSchedule:
        placements = [one._replace(completion_s=Decimal(one.completion_s)) for one in good.starts]  # type: ignore[arg-type]
        return good._replace(starts=tuple(placements))
