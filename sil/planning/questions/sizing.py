"""How many of an offer does it take? Bisection, each step replicated until it is settled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from sil.outcome.statistics import Interval
from sil.planning.options import Option, bought
from sil.planning.plan_file import Plan
from sil.planning.questions.ranking import Demand, Looks
from sil.planning.samples import Samples


@dataclass(frozen=True)
class Step:
    """What so many of the offer reach; `meets` the target, or misses it, or (None) is not told apart from it
    by more than the indifference, which is taken as met. Where as many replications as are allowed do not
    settle that, it is as their mean says."""

    count: int
    reached: Interval
    n: int
    meets: bool | None
    is_settled: bool


@dataclass(frozen=True)
class Size:
    """`count` is the least number that meets the target; None where the limit does not."""

    offer: str
    target: float
    count: int | None
    steps: tuple[Step, ...]

    @property
    def is_settled(self) -> bool:
        return all(step.is_settled for step in self.steps)


def size(samples: Samples, carries: Callable[[Option], bool], on_look: Callable[[int, int], None]) -> Size:
    """It is taken for granted that more of the offer is never worse, and that what does not carry the
    forecast misses the target. Raises what samples raise."""
    plan = samples.plan
    assert plan.size is not None
    offer = plan.offer(plan.size.offer)
    place = plan.offers.index(offer)
    looks = Looks(plan.first_replications, plan.replications).at
    demand = Demand(plan.confidence, 2 + ceil(log2(offer.limit + 1)), len(looks))
    steps: list[Step] = []

    def meets(count: int) -> bool:
        if not carries(bought(plan, {place: count})):
            return False
        steps.append(_step(samples, plan, place, count, demand, looks, on_look))
        return steps[-1].meets is not False

    if not meets(offer.limit):
        return Size(offer.name, plan.size.target, None, tuple(steps))
    if meets(0):
        return Size(offer.name, plan.size.target, 0, tuple(steps))
    too_few, enough = 0, offer.limit
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if meets(middle):
            enough = middle
        else:
            too_few = middle
    return Size(offer.name, plan.size.target, enough, tuple(steps))


def _step(
    samples: Samples,
    plan: Plan,
    place: int,
    count: int,
    demand: Demand,
    looks: tuple[int, ...],
    on_look: Callable[[int, int], None],
) -> Step:
    assert plan.size is not None
    option, target = bought(plan, {place: count}), plan.size.target
    sign = 1.0 if samples.goal.more_is_better else -1.0
    for n in looks:
        samples.ensure([option], n)
        values = samples.values(option)
        reached = Interval(float(np.mean(values)), demand.half_width(values))
        on_look(len(values), 1)
        ahead, width = sign * (reached.mean - target), reached.half_width or 0.0
        if ahead - width > 0.0 or ahead + width < 0.0:
            return Step(count, reached, len(values), ahead > 0.0, True)
        if abs(ahead) + width <= plan.indifference * target:
            return Step(count, reached, len(values), None, True)
    return Step(count, reached, len(values), ahead >= 0.0, False)
