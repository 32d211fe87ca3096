"""The claims of the fourth case study of Collins and George 2001."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise, product

import numpy as np

from sil.outcome.statistics import Sample
from sil.studies.collins_george.cs3 import DISTRIBUTIONS, LEVELS, WITH_LEVELS
from sil.studies.collins_george.site_runs import OVERALL
from sil.studies.grid_samples import GridSamples
from sil.studies.ledger import SLIGHT_PERCENT, Claim, statements, without_rule
from sil.studies.rules import (
    MOST,
    Estimate,
    Verdict,
    above,
    all_positive,
    below,
    count_of,
    inside,
    most_positive,
    positive,
    range_of,
    some_positive,
    text,
    within,
)

RATES = (1, 2, 4, 8, 16, 32)
LOW, HIGH = RATES[:2], RATES[-2:]
MIDDLE_PERCENT = 50.0
STATED = statements(
    "cs4",
    contained_s=100.0 + SLIGHT_PERCENT,
    middle_percent=MIDDLE_PERCENT,
    slight_percent=SLIGHT_PERCENT,
)

RARER = tuple(pairwise(WITH_LEVELS))
"""Pairs of distributions; high-priority jobs are rarer in the first."""
TIME, SHARE = "time_s", "parallel_percent"
EXCESS = "excess_s"
"""Its differences have the means of those of TIME, since classes do not depend on priorities; but they do not
vary with the classes that were drawn."""
LOOKS = 5
"""The claims on the order of priorities and on rarity are examined so often at most, each time with twice as
many seeds at the points that do not decide."""

Point = tuple[str, int]
"""Distribution and rate."""
Measure = Callable[..., Sample]
"""A measure at a point of the grid: distribution, level, rate."""


def undecided(found: GridSamples) -> set[Point]:
    """The points that have too few seeds to decide the claims on the order of priorities and on rarity."""
    cases = (_order(partial(found, EXCESS)), _rarity(partial(found, EXCESS)))
    return {
        point
        for of_claim in cases
        if all_positive(of_claim.values()).verdict is Verdict.INCONCLUSIVE
        for points, x in of_claim.items()
        if positive(x) is not Verdict.HOLDS
        for point in points[:2]
    }


def _order(time_s: Measure) -> dict[tuple[Point, Point, str], Estimate]:
    """By how much the next lower priority takes longer."""
    return {
        ((d, r), (d, r), upper): Estimate(time_s(d, lower, r) - time_s(d, upper, r), LOOKS)
        for d, r, (upper, lower) in product(WITH_LEVELS, RATES, pairwise(LEVELS))
    }


def _rarity(time_s: Measure) -> dict[tuple[Point, Point], Estimate]:
    """By how much high jobs take longer where there are more of them."""
    found = {}
    for (fewer, more), r in product(RARER, RATES):
        of_fewer, of_more = time_s(fewer, "high", r), time_s(more, "high", r)
        both = min(len(of_fewer), len(of_more))
        found[(fewer, r), (more, r)] = Estimate(of_more[:both] - of_fewer[:both], LOOKS)
    return found


def claims(found: GridSamples, seeds: int) -> list[Claim]:
    """With `seeds` at every point, and more at those of two claims."""
    first = found.up_to(seeds)
    return [
        *claims_about_order(partial(found, EXCESS)),
        *claims_about_high_jobs(partial(first, TIME)),
        *claims_about_rates(partial(first, TIME)),
        *claims_about_parallelism(partial(first, SHARE)),
        *_claims_about_displacement(first),
        *_claims_about_clusters(first),
    ]


def claims_about_order(time_s: Measure) -> list[Claim]:
    order, rarity = list(_order(time_s).values()), list(_rarity(time_s).values())
    seeds = max(len(x.values) for x in (*order, *rarity))
    return [
        Claim(
            statement,
            f"{count_of(found)}; least difference {_least(found, 's')}; up to {seeds} seeds",
            all_positive(found, "s"),
        )
        for statement, found in ((STATED["order"], order), (STATED["rarity"], rarity))
    ]


def claims_about_high_jobs(time_s: Measure) -> list[Claim]:
    rare_s = {r: Estimate(time_s("10/10/80", "high", r)) for r in RATES}
    longest_s = max(rare_s.values(), key=lambda x: x.mean)
    # the largest of several means is not one of them, chosen beforehand
    contained = [above(Estimate(longest_s.values, looks=len(RATES)), 100.0)]
    contained += [below(x, 100.0 + SLIGHT_PERCENT) for x in rare_s.values()]
    ratio = Estimate(time_s("50/25/25", "high", 32) / time_s("10/10/80", "high", 32))
    return [
        Claim(
            STATED["contained"],
            f"{text(longest_s, 0, 's')}; {text(rare_s[32], 0, 's')} at 32, {text(rare_s[1], 0, 's')} at 1",
            all_positive(contained, "s"),
        ),
        Claim(
            STATED["four-times"],
            f"{text(ratio, 2)} times",
            all_positive([above(ratio, 4.0)], "times"),
        ),
    ]


def claims_about_rates(time_s: Measure) -> list[Claim]:
    growth = [
        Estimate(time_s(d, OVERALL, fast) - time_s(d, OVERALL, slow))
        for d, (slow, fast) in product(DISTRIBUTIONS, pairwise(RATES))
    ]
    falls = [
        Estimate(time_s(d, level, slow) - time_s(d, level, fast))
        for d, level, (slow, fast) in product(WITH_LEVELS, LEVELS, pairwise(RATES))
    ]
    penalty = {
        (d, r): Estimate(100 * (time_s(d, OVERALL, r) / time_s("none", OVERALL, r) - 1))
        for d, r in product(WITH_LEVELS, RATES)
    }
    slight = [inside(x, 0.0, SLIGHT_PERCENT) for x in penalty.values()]
    slow_penalty = [
        Estimate(time_s("10/10/80", OVERALL, r) - time_s(d, OVERALL, r))
        for d, r in product(("25/25/50", "50/25/25"), RATES[:2])
    ]
    others_s = {r: (time_s("25/25/50", OVERALL, r) + time_s("50/25/25", OVERALL, r)) / 2 for r in RATES}
    excess = {r: Estimate(time_s("10/10/80", OVERALL, r) - others_s[r]) for r in RATES}
    return [
        Claim(
            STATED["growth"],
            f"{count_of(growth)}; {range_of(growth, 's')}",
            most_positive(growth, "s"),
        ),
        Claim(
            STATED["not-monotonic"],
            f"largest fall {text(max(falls, key=lambda x: x.low), 1, 's')}",
            some_positive(falls, "s"),
        ),
        Claim(
            STATED["slight-cost"],
            f"{count_of(slight)}; {range_of(list(penalty.values()), '%')}",
            most_positive(slight, "points"),
        ),
        Claim(
            STATED["low-rates"],
            ", ".join(f"{d} {text(penalty[d, r], 1, '%')} at {r}" for r in RATES[:2] for d in WITH_LEVELS),
            all_positive(slow_penalty, "s"),
        ),
        Claim(
            STATED["reversal"],
            "difference " + ", ".join(f"{text(x, 1, 's')} at {r}" for r, x in excess.items()),
            all_positive((x if r <= 8 else below(x, 0.0) for r, x in excess.items()), "s"),
        ),
    ]


def claims_about_parallelism(parallel: Measure) -> list[Claim]:
    shares = {d: [Estimate(parallel(d, OVERALL, r)) for r in (1, 32)] for d in DISTRIBUTIONS}
    listed = ", ".join(f"{d} {text(slow, 0)} to {text(fast, 0, '%')}" for d, (slow, fast) in shares.items())
    fewer_parallel = [
        Estimate(parallel(d, OVERALL, slow) - parallel(d, OVERALL, fast))
        for d, (slow, fast) in product(DISTRIBUTIONS, pairwise(RATES))
    ]
    by_level = [
        Estimate(parallel(d, "high", r) - parallel(d, "low", r)) for d, r in product(WITH_LEVELS, RATES)
    ]
    fall = {d: parallel(d, "high", 1) - parallel(d, "high", 32) for d in WITH_LEVELS}
    faster_fall = [Estimate(fall[more] - fall[fewer]) for fewer, more in RARER]
    return [
        Claim(
            STATED["less-parallel"],
            listed,
            all_positive(fewer_parallel, "points"),
        ),
        without_rule(STATED["shares-of-table-1"], listed),
        Claim(
            STATED["levels-parallel"],
            f"{count_of(by_level)}; least difference {_least(by_level, 'points')}",
            all_positive(by_level, "points"),
        ),
        Claim(
            STATED["faster-fall"],
            "by " + " and ".join(text(x, 1, "points") for x in faster_fall),
            all_positive(faster_fall, "points"),
        ),
    ]


def _least(found: Iterable[Estimate], unit: str) -> str:
    return text(min(found, key=lambda x: x.low), 1, unit)


def _claims_about_displacement(found: GridSamples) -> list[Claim]:
    def progress(distribution: str, rate: int) -> Sample:
        """How much of its run time a displaced run had behind it (%); NaN where none was displaced."""
        return found("progress_percent", distribution, "low", rate)

    at_low_rates = {(d, r): _of_known(progress(d, r)) for d, r in product(WITH_LEVELS, LOW)}
    rare = WITH_LEVELS[0]
    more = [
        _of_known(progress(rare, low) - progress(d, rate))
        for low in LOW
        for d, rate in (*product(WITH_LEVELS[1:], (low,)), *product((rare,), HIGH))
    ]
    on_cluster = [_of_known(found("often_parallel_percent", rare, "low", r)) for r in LOW]
    return [
        Claim(
            STATED["well-into"],
            ", ".join(f"{d} {text(x, 0, '%')} at {r}" for (d, r), x in at_low_rates.items()),
            all_positive((above(x, MIDDLE_PERCENT) for x in at_low_rates.values()), "points"),
        ),
        Claim(
            STATED["most-well-into"],
            f"{count_of(more)}; {range_of(more, 'points')}",
            all_positive(more, "points"),
        ),
        Claim(
            STATED["ends-on-cluster"],
            ", ".join(f"{text(x, 0, '%')} at {r}" for r, x in zip(LOW, on_cluster, strict=True)),
            all_positive((above(x, 100 * float(MOST)) for x in on_cluster), "points"),
        ),
    ]


def _of_known(values: Sample) -> Estimate:
    """Of the replications that have a value."""
    return Estimate(values[np.isfinite(values)])


def _claims_about_clusters(found: GridSamples) -> list[Claim]:
    low = list(product(WITH_LEVELS, LOW))

    def less_medium(measure: str) -> list[Estimate]:
        return [Estimate(found(measure, d, "high", r) - found(measure, d, "medium", r)) for d, r in low]

    shares = less_medium(SHARE)
    slower = [Estimate(-x.values) for x in less_medium("cluster_run_s")]
    return [
        Claim(
            STATED["alike"],
            f"difference {range_of(shares, 'points')}",
            all_positive((y for x in shares for y in within(x, -SLIGHT_PERCENT, SLIGHT_PERCENT)), "points"),
        ),
        Claim(
            STATED["best-clusters"],
            f"{count_of(slower)}; {range_of(slower, 's')}",
            most_positive(slower, "s"),
        ),
    ]
