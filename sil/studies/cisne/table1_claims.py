"""Table 1 of Hanzich et al. 2006: its cells, and what the paper says of them, claim by claim."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from math import inf

import numpy as np

from scheduler.time_shared.social_contract import MOST_CPU
from sil.outcome.statistics import Sample
from sil.studies.cisne.experiments import (
    AWARE,
    BLIND,
    LOADS,
    METHODS,
    MIXED,
    POLICIES,
    Deviations,
    shortest_exe_s,
)
from sil.studies.cisne.published_table import (
    ALMOST_ALWAYS_PERCENT,
    IN_ORDER,
    LIMIT_MS,
    NEVER_PERCENT,
    POINTS,
    REACHED_PERCENT,
    STATED,
    cells,
    claim_about_the_table,
    distance,
)
from sil.studies.ledger import Claim, Statement, without_rule
from sil.studies.rules import (
    Estimate,
    Judge,
    above,
    all_or_partly_positive,
    all_positive,
    below,
    count_of,
    most_positive,
    range_of,
    some_positive,
    text,
)

CELLS = tuple(product(POLICIES, LOADS))
BACKFILLED = tuple((policy, *point) for policy, point in product(IN_ORDER, POINTS))
ByLimit = Mapping[float, Deviations]
"""Deviations under each limit of the CPU requirements on a node; the headline is MOST_CPU."""
Measure = Callable[[Deviations, str], Iterable[Sample]]
"""What a claim is about, by the predictor (BLIND or AWARE)."""
Margin = Callable[[Estimate], Estimate]


def claims(by_limit: ByLimit) -> list[Claim]:
    """Each claim is judged by the predictions of the blind predictor, which seems to be the paper's. The
    paper names neither that nor a limit: the policy-aware one, and other limits, are as admissible."""
    found = by_limit[MOST_CPU]
    of_limits = {limit_title(limit): cells(of) for limit, of in by_limit.items() if limit != MOST_CPU}
    return [
        *_claims_about_policies(by_limit),
        *_claims_about_backfilling(by_limit),
        *_claims_about_methods(by_limit),
        *_claims_about_cost(found),
        _claim_about_limits(by_limit),
        claim_about_the_table(cells(found), {AWARE: cells(found, AWARE)} | of_limits),
    ]


def compared(
    statement: Statement,
    by_limit: ByLimit,
    measure: Measure,
    judge: Judge = all_or_partly_positive,
    unit: str = "points",
    margin: Margin = lambda x: x,
) -> Claim:
    """A claim that quantities are positive, or that their margins are: by each predictor, and under each
    limit."""
    modes = {mode: (by_limit[MOST_CPU], mode) for mode in (BLIND, AWARE)}
    others = {limit_title(limit): (of, BLIND) for limit, of in by_limit.items() if limit != MOST_CPU}
    found = {name: [Estimate(x) for x in measure(*of)] for name, of in (modes | others).items()}
    judged = {name: judge(map(margin, of_name), unit) for name, of_name in found.items()}
    said = {mode: f"{count_of(map(margin, found[mode]))}; {range_of(found[mode], unit)}" for mode in modes}
    ours = "; ".join(f"{mode}: {of_mode}" for mode, of_mode in said.items())
    if said[BLIND] == said[AWARE]:  # predictions do not matter, or no job overtakes another
        ours = said[BLIND]
        del judged[AWARE]
    return Claim(statement, ours, judged.pop(BLIND), inputs=judged)


def _claims_about_policies(by_limit: ByLimit) -> list[Claim]:
    cases = list(product(POINTS, ("Normal", "Uniform")))

    def less_than(better: Mapping[str, str], found: Deviations, mode: str) -> list[Sample]:
        """By how much policies deviate more than others."""
        return [
            found.of(policy, *point, mode) - found.of(other, *point, mode)
            for (policy, other), point in product(better.items(), POINTS)
        ]

    def basic_is_worse(found: Deviations, mode: str) -> list[Sample]:
        return [found.of("Basic", *point, mode) - found.of(other, *point, mode) for point, other in cases]

    def basic_is_worse_where_jobs_wait_longer(found: Deviations, mode: str) -> list[Sample]:
        waiting_s = partial(found.of_run, measure="waiting_s")
        return [
            worse
            for worse, (point, other) in zip(basic_is_worse(found, mode), cases, strict=True)
            if Estimate(waiting_s("Basic", point[0]) - waiting_s(other, point[0])).low > 0
        ]

    return [
        compared(STATED["in-order-is-better"], by_limit, partial(less_than, IN_ORDER)),
        compared(STATED["uniform-is-better"], by_limit, partial(less_than, {"Normal": "Uniform"})),
        compared(
            STATED["twelve-percent"],
            by_limit,
            lambda found, mode: (found.of("Uniform", *point, mode) for point in POINTS),
            some_positive,
            "%",
            lambda x: below(x, REACHED_PERCENT),
        ),
        compared(STATED["same-resources"], by_limit, partial(less_than, {"Normal": MIXED})),
        compared(STATED["basic-is-worse"], by_limit, basic_is_worse, judge=some_positive),
        compared(STATED["long-queue"], by_limit, basic_is_worse_where_jobs_wait_longer),
    ]


def _claims_about_backfilling(by_limit: ByLimit) -> list[Claim]:
    steps = list(product(IN_ORDER, pairwise(LOADS)))

    def gains_of_order(found: Deviations, _: str) -> list[Sample]:
        return [found.of(*cell, BLIND) - found.of(*cell, AWARE) for cell in BACKFILLED]

    def over(found: Deviations, mode: str) -> list[Sample]:
        return [found.of(*cell, mode, "over") for cell in BACKFILLED]

    def under(found: Deviations, mode: str) -> list[Sample]:
        return [100 - x for x in over(found, mode)]

    def falls(found: Deviations, mode: str) -> list[Sample]:
        return [
            found.of(policy, less, pair, mode) - found.of(policy, more, pair, mode)
            for (policy, (less, more)), pair in product(steps, METHODS.values())
        ]

    def fewer_overtake(found: Deviations, _: str) -> list[Sample]:
        of = partial(found.of_run, measure="backfilled")
        return [of(policy, less) - of(policy, more) for policy, (less, more) in steps]

    def sooner_if_mixed(found: Deviations, _: str) -> list[Sample]:
        of = partial(found.of_run, measure="turnaround_s")
        return [of("Normal", load) - of("Uniform", load) for load in LOADS]

    def share(statement: Statement, jobs: Measure, margin: Margin) -> Claim:
        return compared(statement, by_limit, jobs, unit="% of jobs", margin=margin)

    def caused(claim: Claim) -> Claim:
        return replace(claim, ours=claim.ours + _cause(by_limit[MOST_CPU]))

    return [
        compared(STATED["order-varies"], by_limit, gains_of_order),
        caused(share(STATED["almost-always"], over, lambda x: above(x, ALMOST_ALWAYS_PERCENT))),
        caused(share(STATED["never"], under, lambda x: below(x, NEVER_PERCENT))),
        caused(compared(STATED["load-helps"], by_limit, falls)),
        compared(STATED["fewer-chances"], by_limit, fewer_overtake, unit="jobs of 30"),
        compared(STATED["mixing-helps"], by_limit, sooner_if_mixed, unit="s"),
    ]


def _cause(found: Deviations) -> str:
    """Of what the claims on pessimism have in common."""
    biases = [float(found.of(*cell, METHODS["CPU"], BLIND, "bias").mean()) for cell in CELLS]
    return (
        f"; the cause: predictions by CPU-CPU are too early on average in {sum(x < 0 for x in biases)} of "
        f"{len(CELLS)} cells, since this cluster is slower than Algorithm 1 knows"
    )


def _claims_about_methods(by_limit: ByLimit) -> list[Claim]:
    found = by_limit[MOST_CPU]
    mpl, cpu = METHODS.values()

    def by_mpl_is_worse(found: Deviations, mode: str, *cells: tuple[str, float]) -> list[Sample]:
        return [found.of(*cell, mpl, mode) - found.of(*cell, cpu, mode) for cell in cells or CELLS]

    def exception(statement: Statement, policy: str, there: float, elsewhere: float) -> Claim:
        def worse_there_only(found: Deviations, mode: str) -> list[Sample]:
            better_there, better = by_mpl_is_worse(found, mode, (policy, there), (policy, elsewhere))
            return [-better_there, better]

        return compared(statement, by_limit, worse_there_only, judge=all_positive)

    over = Estimate(found.of("Basic", 0.25, cpu, BLIND, "over"))
    bias = Estimate(found.of("Basic", 0.25, cpu, BLIND, "bias"))
    return [
        compared(STATED["cpu-is-better"], by_limit, by_mpl_is_worse, judge=most_positive),
        exception(STATED["normal-on-all"], "Normal", 1.0, 0.25),
        exception(STATED["basic-on-few"], "Basic", 0.25, 1.0),
        Claim(
            STATED["pessimistic"],
            f"bias {text(bias, 1, '%')}; {text(over, 0, '% of jobs')} end before{_cause(found)}",
            all_positive([bias, above(over, ALMOST_ALWAYS_PERCENT)], "points"),
        ),
    ]


def _claims_about_cost(found: Deviations) -> list[Claim]:
    cost = [Estimate(found.of_run(policy, 0.25, "cost_ms")) for policy in POLICIES]
    worst = max(cost, key=lambda x: x.high)
    shortest_s = shortest_exe_s()
    cells = [found.of(*cell, pair) for cell, pair in product(CELLS, METHODS.values())]
    of_table = Estimate(np.mean(cells, axis=0))
    no_fault = "no fault in any run"
    return [
        Claim(
            STATED["four-ms"],
            f"at most {text(worst, 4, 'ms')}",
            all_positive((below(x, LIMIT_MS) for x in cost), "ms"),
        ),
        Claim(
            STATED["two-orders"],
            f"{shortest_s:.0f} s against {text(worst, 4, 'ms')}",
            all_positive((below(x, 1e3 * shortest_s / 100) for x in cost), "ms"),
        ),
        without_rule(STATED["constant-time"], "see benchmarks/results"),
        without_rule(
            STATED["analytic-error"], f"the mean of all cells of Table 1 is {text(of_table, 1, '%')}"
        ),
        without_rule(STATED["mpl-of-four"], no_fault),
        without_rule(STATED["limits-of-resources"], no_fault),
        without_rule(STATED["better-than-users"]),
    ]


def _claim_about_limits(by_limit: ByLimit) -> Claim:
    distances = {limit: Estimate(distance(cells(found))) for limit, found in by_limit.items()}
    listed = "; ".join(f"{limit_title(limit)}: {text(x)} points" for limit, x in distances.items())
    return without_rule(STATED["cpu-is-limited"], listed)


def limit_title(limit: float) -> str:
    return "no limit" if limit == inf else f"{limit:g} CPU"
