"""What to buy for a budget: a search over combinations of offers.

If at most MOST_ENUMERATED combinations are within the budget, all are tried, and the best on the sample is
exact. Otherwise a local search exchanges up to two units for up to two others, from several starts, until
nothing improves. Both use the same replications (a sample average with common random numbers: Kleywegt,
Shapiro and Homem-de-Mello 2002). Then the best few are replicated until it is settled which is the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import inf

import numpy as np

from sil.planning.options import Counts, Option, affordable, bought, is_affordable, only, with_more
from sil.planning.plan_file import Plan
from sil.planning.questions.ranking import Criteria, OnLook, Ranking, rank_options
from sil.planning.samples import OptionSamples

MOST_ENUMERATED = 200
MOST_CONTENDERS = 6
"""This many of the best on the sample are compared until they are settled."""

Judge = Callable[[Sequence[Counts]], list[float]]
"""The value of each combination; more is better."""


@dataclass(frozen=True)
class BestBuy:
    """`tried` combinations of `possible` ones; `ranking` compares the best few. With those `left_out` the
    site could not carry the forecast, or they exclude each other."""

    ranking: Ranking
    tried: int
    possible: int
    left_out: tuple[Option, ...] = ()

    @property
    def is_complete(self) -> bool:
        return self.tried == self.possible


def best_buy(
    samples: OptionSamples, base: Option, carries: Callable[[Option], bool], on_look: OnLook
) -> BestBuy | None:
    """None if no combination carries the forecast. Raises what samples raise."""
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
    if len(possible) <= MOST_ENUMERATED:
        judge(possible)
    else:
        search(plan, judge)
    best = sorted(values, key=lambda counts: (-values[counts], bought(plan, counts).cost))
    able = [bought(plan, counts) for counts in best if any(counts) and values[counts] > -inf]
    if not able:
        return None
    criteria = Criteria(base, only_first=True, chosen_from=len(able))
    ranking = rank_options(samples, able[:MOST_CONTENDERS], criteria, on_look)
    left_out = tuple(bought(plan, counts) for counts in possible if values.get(counts) == -inf)
    return BestBuy(ranking, len(values), len(possible), left_out)


def purchases(plan: Plan) -> list[Counts]:
    """What could be bought of several offers, or of one several times: within the budget, or without one as
    many of one offer as its limit allows. If there are many, only those to which nothing can be added."""
    if plan.budget is None:
        return [only(plan, k, n) for k, offer in enumerate(plan.offers) for n in range(2, offer.limit + 1)]
    possible = affordable(plan)
    if len(possible) <= MOST_ENUMERATED:
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
        """The first of the best."""
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
    for less in _steps(len(counts)):
        for more in _steps(len(counts)):
            move = counts
            for k in less:
                move = with_more(move, k, -1)
            for k in more:
                move = with_more(move, k, 1)
            if move != counts and is_affordable(plan, move):
                yield move


def _steps(n: int) -> list[tuple[int, ...]]:
    """None, one, or two of n offers."""
    return [(), *((k,) for k in range(n)), *combinations_with_replacement(range(n), 2)]
