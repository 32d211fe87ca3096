"""How many of an offer does it take? Bisection, each step replicated until it is settled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from math import ceil, log2
from typing import Any

import numpy as np

from sil.outcome.statistics import Interval, Sample, has_spread, n_different
from sil.planning.options import Option, bought, only
from sil.planning.questions.ranking import OnLook
from sil.planning.questions.verdicts import FEWEST_FOR_A_TIE, Demand, PairVerdict, looks
from sil.planning.samples import OptionSamples

MEETS = {PairVerdict.BETTER: True, PairVerdict.WORSE: False, PairVerdict.TIE: None}


@dataclass(frozen=True)
class Step:
    """What this many units reach. `meets` is whether they meet the target; None if they are within the
    indifference of it, which counts as met. If the replications do not settle it, their mean decides, and
    `no_interval` says why they have no interval."""

    count: int
    reached: Interval
    n: int
    meets: bool | None
    is_settled: bool
    no_interval: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "reached": self.reached.as_dict(),
        }


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

    def as_dict(self) -> dict[str, Any]:
        steps = [step.as_dict() for step in self.steps]
        return {"offer": self.offer, "target": self.target, "count": self.count, "steps": steps}


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
            reached, ahead = demand.interval(values), samples.sign * (values - target)
            on_look(len(values), 1)
            verdict = demand.verdict(ahead, plan.indifference * target)
            if verdict is PairVerdict.UNSETTLED or (not has_spread(values) and len(values) > 1):
                continue  # what is rare, like a wait of hours, may have been in none of them
            if verdict is PairVerdict.WORSE or len(values) >= min(FEWEST_FOR_A_TIE, at[-1]):
                return Step(count, reached, len(values), MEETS[verdict], True)
        return Step(
            count, reached, len(values), float(np.mean(ahead)) >= 0.0, False, _why_no_interval(values)
        )

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


def _why_no_interval(values: Sample) -> str:
    n, different = len(values), n_different(values)
    if n < 2 or has_spread(values):
        return ""
    return (
        f"only {different} of {n:,} replications differ" if different else f"all {n:,} replications are equal"
    )
