"""What to buy for a budget: a search over combinations of offers.

Where there are few combinations within the budget (MOST_ENUMERATED), all are tried: the best one on the
sample is the best there is. Where there are more, a local search gives up to two offers for up to two others,
from several starts, until nothing is better. Both look at the same replications (a sample average with common
random numbers: Kleywegt, Shapiro and Homem-de-Mello 2002). Then the best few are replicated until it is
settled which of them is the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import inf

import numpy as np

from sil.planning.options import Option, bought
from sil.planning.plan_file import Plan
from sil.planning.questions.effects import Ranking, ranked
from sil.planning.samples import Samples

MOST_ENUMERATED = 200
"""So many combinations are all tried."""
MOST_CONTENDERS = 6
"""So many of the best on the sample are compared to the end."""

Counts = tuple[int, ...]
"""How many of each offer."""
Judge = Callable[[Sequence[Counts]], list[float]]
"""How good each is; more is better."""


@dataclass(frozen=True)
class BestBuy:
    """`tried` combinations of `possible` ones; `ranking` is that of the best few."""

    ranking: Ranking
    tried: int
    possible: int

    @property
    def is_complete(self) -> bool:
        return self.tried == self.possible


def best_buy(
    samples: Samples, base: Option, carries: Callable[[Option], bool], on_look: Callable[[int, int], None]
) -> BestBuy | None:
    """None where no combination carries what arrives. Raises what samples raise."""
    plan = samples.plan
    assert plan.budget is not None
    n = plan.first_replications
    seen: dict[Counts, float] = {}

    def judge(many: Sequence[Counts]) -> list[float]:
        options = [_option(plan, counts) for counts in many]
        able = [option for option in options if carries(option)]
        samples.ensure([base, *able], n)
        sign = 1.0 if samples.goal.more_is_better else -1.0
        good = {option.name: sign * float(np.mean(samples.values(option, n=n))) for option in able}
        found = [good.get(option.name, -inf) for option in options]
        seen.update(zip(many, found, strict=True))
        return found

    possible = list(affordable(plan))
    if len(possible) <= MOST_ENUMERATED:
        judge(possible)
    else:
        search(plan, judge)
    best = sorted(seen, key=lambda counts: (-seen[counts], _option(plan, counts).cost))
    able = [_option(plan, counts) for counts in best if any(counts) and seen[counts] > -inf]
    if not able:
        return None
    best_few = able[:MOST_CONTENDERS]
    ranking = ranked(samples, best_few, False, True, base, on_look, chosen_from=len(able))
    return BestBuy(ranking, len(seen), len(possible))


def affordable(plan: Plan) -> Iterator[Counts]:
    """All combinations within the budget, nothing among them."""
    assert plan.budget is not None
    yield from _within(plan, plan.budget, ())


def _within(plan: Plan, left: float, before: Counts) -> Iterator[Counts]:
    if len(before) == len(plan.offers):
        yield before
        return
    offer = plan.offers[len(before)]
    for count in range(offer.limit + 1):
        if count * plan.cost(offer) > left * (1 + 1e-12):
            break
        yield from _within(plan, left - count * plan.cost(offer), (*before, count))


def search(plan: Plan, judge: Judge) -> Counts:
    """The best combination that local search finds: from nothing, and from as much as possible of each."""
    known: dict[Counts, float] = {}

    def values(many: Sequence[Counts]) -> None:
        new = [counts for counts in dict.fromkeys(many) if counts not in known]
        known.update(zip(new, judge(new), strict=True) if new else ())

    for start in _starts(plan):
        here = start
        values([here])
        while True:
            around = list(_neighbours(plan, here))
            values(around)
            best = max([here, *around], key=lambda counts: (known[counts], counts == here))
            if best == here:
                break
            here = best
    return max(known, key=lambda counts: known[counts])


def _starts(plan: Plan) -> Iterator[Counts]:
    nothing = (0,) * len(plan.offers)
    yield nothing
    for k in range(len(plan.offers)):
        full = nothing
        while _fits(plan, more := _changed(full, k, 1)):
            full = more
        yield full


def _neighbours(plan: Plan, counts: Counts) -> Iterator[Counts]:
    """One or two less of what is there, of any offers, and up to two more of any others for them."""
    for less in _steps(len(counts)):
        for more in _steps(len(counts)):
            move = counts
            for k in less:
                move = _changed(move, k, -1)
            for k in more:
                move = _changed(move, k, 1)
            if move != counts and _fits(plan, move):
                yield move


def _steps(n: int) -> list[tuple[int, ...]]:
    """None, one, or two of n offers."""
    return [(), *((k,) for k in range(n)), *combinations_with_replacement(range(n), 2)]


def _changed(counts: Counts, k: int, by: int) -> Counts:
    return (*counts[:k], counts[k] + by, *counts[k + 1 :])


def _fits(plan: Plan, counts: Counts) -> bool:
    assert plan.budget is not None
    within = all(0 <= n <= offer.limit for n, offer in zip(counts, plan.offers, strict=True))
    cost = sum(n * plan.cost(offer) for n, offer in zip(counts, plan.offers, strict=True))
    return within and cost <= plan.budget * (1 + 1e-12)


def _option(plan: Plan, counts: Counts) -> Option:
    return bought(plan, dict(enumerate(counts)))
