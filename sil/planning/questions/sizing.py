"""How many of an offer does it take? Bisection, each step replicated until it is settled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2

from sil.outcome.statistics import Interval
from sil.planning.options import Option, bought, only
from sil.planning.questions.ranking import Demand, OnLook, looks
from sil.planning.samples import OptionSamples


@dataclass(frozen=True)
class Step:
    """What this many units reach. `meets` is whether they meet the target; None if they are within the
    indifference of it, which counts as met. If the replications do not settle it, their mean decides."""

    count: int
    reached: Interval
    n: int
    meets: bool | None
    is_settled: bool


@dataclass(frozen=True)
class Size:
    """`count` is the least number that meets the target; None if the limit does not."""

    offer: str
    target: float
    count: int | None
    steps: tuple[Step, ...]

    @property
    def is_settled(self) -> bool:
        return all(step.is_settled for step in self.steps)


def size(samples: OptionSamples, carries: Callable[[Option], bool], on_look: OnLook) -> Size:
    """Assumes that more of the offer is never worse, and that an option which does not carry the forecast
    misses the target. Raises what samples raise."""
    plan = samples.plan
    assert plan.size is not None
    offer, target = plan.offer(plan.size.offer), plan.size.target
    at = looks(plan.first_replications, plan.replications)
    demand = Demand(plan.confidence, 2 + ceil(log2(offer.limit + 1)), len(at))
    steps: list[Step] = []

    def step(count: int, option: Option) -> Step:
        for n in at:
            samples.ensure([option], n)
            values = samples.values(option)
            reached = demand.interval(values)
            on_look(len(values), 1)
            ahead, width = samples.sign * (reached.mean - target), reached.half_width or 0.0
            if ahead - width > 0.0 or ahead + width < 0.0:
                return Step(count, reached, len(values), ahead > 0.0, True)
            if abs(ahead) + width <= plan.indifference * target:
                return Step(count, reached, len(values), None, True)
        return Step(count, reached, len(values), ahead >= 0.0, False)

    def meets(count: int) -> bool:
        option = bought(plan, only(plan, plan.offers.index(offer), count))
        if not carries(option):
            return False
        steps.append(step(count, option))
        return steps[-1].meets is not False

    if not meets(offer.limit):
        return Size(offer.name, target, None, tuple(steps))
    if meets(0):
        return Size(offer.name, target, 0, tuple(steps))
    too_few, enough = 0, offer.limit
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if meets(middle):
            enough = middle
        else:
            too_few = middle
    return Size(offer.name, target, enough, tuple(steps))
