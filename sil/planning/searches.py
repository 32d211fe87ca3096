"""Searches among options: what to buy for a budget, and how many of an offer it takes.

If at most MAX_ENUMERATED combinations are within the budget, all are tried, and the best on the sample is
exact. Otherwise a local search exchanges up to two units for up to two others, from several starts, until
nothing improves. Both use the same replications (a sample average with common random numbers: Kleywegt,
Shapiro and Homem-de-Mello 2002). Then the best few are replicated until it is settled which is the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import combinations_with_replacement, product
from math import ceil, inf, log2
from typing import Any

import numpy as np

from sil.outcome.statistics import Interval, has_spread, n_different
from sil.planning.options import Counts, Option, affordable, bought, is_affordable, only, with_more
from sil.planning.plan_file import Plan
from sil.planning.ranking import Criteria, OnLook, OptionRanking, rank_options
from sil.planning.runs import OptionSamples
from sil.planning.verdicts import MIN_FOR_A_TIE, JointConfidence, PairVerdict, looks

MAX_ENUMERATED = 200
MAX_CONTENDERS = 6
"""This many of the best on the sample are compared until they are settled."""

Judge = Callable[[Sequence[Counts]], list[float]]
"""The value of each combination; more is better."""


@dataclass(frozen=True)
class BestBuy:
    """`tried` combinations of `possible` ones; `ranking` compares the best few. With those `left_out` the
    site could not carry the forecast, or they exclude each other."""

    ranking: OptionRanking
    tried: int
    possible: int
    left_out: tuple[Option, ...] = ()

    @property
    def is_complete(self) -> bool:
        return self.tried == self.possible


def best_buy(
    samples: OptionSamples, base: Option, carries: Callable[[Option], bool], on_look: OnLook
) -> BestBuy | None:
    """The best buy; None if no combination carries the forecast. Raises what samples raise."""
    plan = samples.plan
    n = plan.first_replications
    values: dict[Counts, float] = {}

    def judge(many: Sequence[Counts]) -> list[float]:
        options = [bought(plan, counts) for counts in many]
        able = [option for option in options if carries(option)]
        samples.ensure([base, *able], n)
        good = {option.name: samples.sign * float(np.mean(samples.values(option, n=n))) for option in able}
        found = [good.get(option.name, -inf) for option in options]
        values.update(zip(many, found, strict=True))
        return found

    possible = affordable(plan)
    if len(possible) <= MAX_ENUMERATED:
        judge(possible)
    else:
        search(plan, judge)
    best = sorted(values, key=lambda counts: (-values[counts], bought(plan, counts).cost))
    able = [bought(plan, counts) for counts in best if any(counts) and values[counts] > -inf]
    if not able:
        return None
    criteria = Criteria(base, only_first=True, chosen_from=len(able))
    ranking = rank_options(samples, able[:MAX_CONTENDERS], criteria, on_look)
    left_out = tuple(bought(plan, counts) for counts in possible if values.get(counts) == -inf)
    return BestBuy(ranking, len(values), len(possible), left_out)


def purchases(plan: Plan) -> list[Counts]:
    """What could be bought of several offers, or of one several times: within the budget, or without one as
    many of one offer as its limit allows. If there are many, only those to which nothing can be added."""
    if plan.budget is None:
        return [only(plan, k, n) for k, offer in enumerate(plan.offers) for n in range(2, offer.limit + 1)]
    possible = affordable(plan)
    if len(possible) <= MAX_ENUMERATED:
        return possible
    within = set(possible)
    return [
        counts
        for counts in possible
        if not any(with_more(counts, k, 1) in within for k in range(len(counts)))
    ]


def search(plan: Plan, judge: Judge) -> Counts:
    """The best combination found by local search, from none and from as many as possible of each offer."""
    values: dict[Counts, float] = {}

    def best_of(many: Sequence[Counts]) -> Counts:
        """The first of the best combinations."""
        new = [counts for counts in dict.fromkeys(many) if counts not in values]
        values.update(zip(new, judge(new), strict=True) if new else ())
        return max(many, key=lambda counts: values[counts])

    for here in _starts(plan):
        best = here
        while (better := best_of([best, *_neighbours(plan, best)])) != best:
            best = better
    return best_of(list(values))


def _starts(plan: Plan) -> Iterator[Counts]:
    yield (0,) * len(plan.offers)
    for k, offer in enumerate(plan.offers):
        alone = (only(plan, k, n) for n in range(offer.limit, -1, -1))
        yield next(counts for counts in alone if is_affordable(plan, counts))


def _neighbours(plan: Plan, counts: Counts) -> Iterator[Counts]:
    """Up to two units fewer of any offers, and up to two more of any others."""
    steps = [of for size in range(3) for of in combinations_with_replacement(range(len(counts)), size)]
    for less, more in product(steps, repeat=2):
        move = counts
        for k in less:
            move = with_more(move, k, -1)
        for k in more:
            move = with_more(move, k, 1)
        if move != counts and is_affordable(plan, move):
            yield move


# -- how many of an offer does it take? ----------------------------------------------------------------------

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
    demand = JointConfidence(plan.confidence, 2 + ceil(log2(offer.limit + 1)), len(at))
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
            if verdict is PairVerdict.WORSE or len(values) >= min(MIN_FOR_A_TIE, at[-1]):
                return Step(count, reached, len(values), MEETS[verdict], True)
        n, different = len(values), n_different(values)
        why = "" if n < 2 or has_spread(values) else f"all {n:,} replications are equal"
        if why and different:
            why = f"only {different} of {n:,} replications differ"
        return Step(count, reached, n, float(np.mean(ahead)) >= 0.0, False, why)

    def meets(count: int) -> bool:
        option = bought(plan, only(plan, plan.offers.index(offer), count))
        if not carries(option):
            return False
        steps.append(step(count, option))
        return steps[-1].meets is not False

    too_few, enough = -1, offer.limit
    if not meets(enough):
        return Size(offer.name, target, None, tuple(steps))
    while enough - too_few > 1:
        middle = 0 if too_few < 0 else (too_few + enough) // 2
        if meets(middle):
            enough = middle
        else:
            too_few = middle
    return Size(offer.name, target, enough, tuple(steps))
