"""What Hanzich et al. 2006 say of Table 1 and Figure 3, claim by claim; and the numbers of Table 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from math import inf

import numpy as np
import polars as pl
from numpy.typing import NDArray

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
from sil.studies.ledger import Claim, Study
from sil.studies.rules import (
    Estimate,
    Judge,
    Judged,
    above,
    all_or_partly_positive,
    all_positive,
    below,
    count_of,
    exactly,
    most_positive,
    range_of,
    some_positive,
    text,
)

REACHED_PERCENT = 12.5
ALMOST_ALWAYS_PERCENT = 95.0
NEVER_PERCENT = 5.0
LIMIT_MS = 4.0
TABLE_1 = Study(
    "cisne-table1",
    reached_percent=REACHED_PERCENT,
    almost_always_percent=ALMOST_ALWAYS_PERCENT,
    never_percent=NEVER_PERCENT,
    limit_ms=LIMIT_MS,
)
FIGURE_3 = Study("cisne-fig3")

PAPER = {
    "Norm+BF": ((144.33, 99.67), (58.67, 59.67), (46.33, 45.00)),
    "Unif+BF": ((69.67, 63.33), (55.00, 31.33), (54.00, 46.67)),
    "Basic": ((6.33, 23.00), (14.00, 18.67), (34.33, 8.67)),
    "Normal": ((23.00, 15.33), (20.50, 21.33), (16.67, 28.33)),
    "Uniform": ((12.67, 8.67), (22.00, 21.67), (25.33, 18.33)),
}
"""Percent, (MPL-MPL, CPU-CPU) for each load."""
PUBLISHED = np.array([PAPER[policy][k][m] for policy in POLICIES for k in range(len(LOADS)) for m in (0, 1)])
"""The 30 cells of the paper, in order of policies and POINTS."""
MPL, CPU = METHODS.values()
CELLS = tuple(product(POLICIES, LOADS))
POINTS = tuple(product(LOADS, METHODS.values()))
IN_ORDER = {"Norm+BF": "Normal", "Unif+BF": "Uniform"}
"""The policy without backfilling for each one with it."""
BACKFILLED = tuple((policy, *point) for policy, point in product(IN_ORDER, POINTS))

ByLimit = Mapping[float, Deviations]
"""Deviations under each limit of the CPU requirements on a node; the headline is MOST_CPU."""
Of = Callable[..., Sample]
"""`Deviations.of` for one predictor."""
Measure = Callable[[Of], Iterable[Sample]]
"""What a claim is about."""
Margin = Callable[[Estimate], Estimate]
Cells = NDArray[np.float64]


def limit_title(limit: float) -> str:
    return "no limit" if limit == inf else f"{limit:g} CPU"


def compared(
    by_limit: ByLimit,
    name: str,
    measure: Measure,
    judge: Judge = all_or_partly_positive,
    unit: str = "points",
    margin: Margin = lambda x: x,
    study: Study = TABLE_1,
) -> Claim:
    """A claim that quantities are positive, or that their margins are: by each predictor, and under each
    limit. It is judged by the predictions of the blind predictor, which seems to be the paper's. The paper
    names neither that nor a limit: the policy-aware one, and other limits, are as admissible."""
    modes = {mode: partial(by_limit[MOST_CPU].of, mode=mode) for mode in (BLIND, AWARE)}
    others = {limit_title(limit): found.of for limit, found in by_limit.items() if limit != MOST_CPU}
    cases = {variant: [Estimate(x) for x in measure(of)] for variant, of in (modes | others).items()}
    judged = {variant: judge(map(margin, found), unit) for variant, found in cases.items()}
    said = {mode: f"{count_of(map(margin, cases[mode]))}; {range_of(cases[mode], unit)}" for mode in modes}
    ours = "; ".join(f"{mode}: {of_mode}" for mode, of_mode in said.items())
    if said[BLIND] == said[AWARE]:  # predictions do not matter, or no job overtakes another
        ours = said[BLIND]
        del judged[AWARE]
    return study.claim(name, ours, judged.pop(BLIND), inputs=judged)


def claims_on_table_1(by_limit: ByLimit) -> list[Claim]:
    found = by_limit[MOST_CPU]
    of_limits = {limit_title(limit): cells(of) for limit, of in by_limit.items() if limit != MOST_CPU}
    distances = {limit: Estimate(_distance(cells(of))) for limit, of in by_limit.items()}
    listed = "; ".join(f"{limit_title(limit)}: {text(x)} points" for limit, x in distances.items())
    return [
        *_claims_about_policies(by_limit),
        *_claims_about_backfilling(by_limit),
        *claims_about_methods(by_limit),
        *_claims_about_cost(found),
        TABLE_1.without_rule("cpu-is-limited", listed),
        _claim_about_the_table(cells(found), {AWARE: cells(found, AWARE)} | of_limits),
    ]


def _claims_about_policies(by_limit: ByLimit) -> list[Claim]:
    claim = partial(compared, by_limit)
    cases = list(product(POINTS, ("Normal", "Uniform")))

    def less_than(better: Mapping[str, str], of: Of) -> list[Sample]:
        """By how much policies deviate more than others."""
        return [
            of(policy, *point) - of(other, *point)
            for (policy, other), point in product(better.items(), POINTS)
        ]

    def basic_is_worse(of: Of) -> list[Sample]:
        return [of("Basic", *point) - of(other, *point) for point, other in cases]

    def basic_is_worse_where_jobs_wait_longer(of: Of) -> list[Sample]:
        waiting_s = partial(of, methods=CPU, measure="waiting_s")
        return [
            worse
            for worse, (point, other) in zip(basic_is_worse(of), cases, strict=True)
            if Estimate(waiting_s("Basic", point[0]) - waiting_s(other, point[0])).low > 0
        ]

    return [
        claim("in-order-is-better", partial(less_than, IN_ORDER)),
        claim("uniform-is-better", partial(less_than, {"Normal": "Uniform"})),
        claim(
            "twelve-percent",
            lambda of: (of("Uniform", *point) for point in POINTS),
            some_positive,
            "%",
            lambda x: below(x, REACHED_PERCENT),
        ),
        claim("same-resources", partial(less_than, {"Normal": MIXED})),
        claim("basic-is-worse", basic_is_worse, judge=some_positive),
        claim("long-queue", basic_is_worse_where_jobs_wait_longer),
    ]


def _claims_about_backfilling(by_limit: ByLimit) -> list[Claim]:
    claim, of_jobs = partial(compared, by_limit), partial(compared, by_limit, unit="% of jobs")
    steps = list(product(IN_ORDER, pairwise(LOADS)))

    def over(of: Of) -> list[Sample]:
        return [of(*cell, measure="over") for cell in BACKFILLED]

    def falls(of: Of) -> list[Sample]:
        return [
            of(policy, less, pair) - of(policy, more, pair)
            for (policy, (less, more)), pair in product(steps, METHODS.values())
        ]

    def fewer_overtake(of: Of) -> list[Sample]:
        of_run = partial(of, methods=CPU, measure="backfilled")
        return [of_run(policy, less) - of_run(policy, more) for policy, (less, more) in steps]

    def sooner_if_mixed(of: Of) -> list[Sample]:
        of_run = partial(of, methods=CPU, measure="turnaround_s")
        return [of_run("Normal", load) - of_run("Uniform", load) for load in LOADS]

    def caused(claim: Claim) -> Claim:
        return replace(claim, ours=claim.ours + _cause(by_limit[MOST_CPU]))

    return [
        claim("order-varies", lambda of: (of(*c, mode=BLIND) - of(*c, mode=AWARE) for c in BACKFILLED)),
        caused(of_jobs("almost-always", over, margin=lambda x: above(x, ALMOST_ALWAYS_PERCENT))),
        caused(
            of_jobs("never", lambda of: (100 - x for x in over(of)), margin=lambda x: below(x, NEVER_PERCENT))
        ),
        caused(claim("load-helps", falls)),
        claim("fewer-chances", fewer_overtake, unit="jobs of 30"),
        claim("mixing-helps", sooner_if_mixed, unit="s"),
    ]


def _cause(found: Deviations) -> str:
    """Of what the claims on pessimism have in common."""
    biases = [float(found.of(*cell, CPU, BLIND, "bias").mean()) for cell in CELLS]
    return (
        f"; the cause: predictions by CPU-CPU are too early on average in {sum(x < 0 for x in biases)} of "
        f"{len(CELLS)} cells, since this cluster is slower than Algorithm 1 knows"
    )


def claims_about_methods(by_limit: ByLimit) -> list[Claim]:
    found = by_limit[MOST_CPU]

    def by_mpl_is_worse(of: Of, *cells: tuple[str, float]) -> list[Sample]:
        return [of(*cell, MPL) - of(*cell, CPU) for cell in cells or CELLS]

    def exception(name: str, policy: str, there: float, elsewhere: float) -> Claim:
        def worse_there_only(of: Of) -> list[Sample]:
            better_there, better = by_mpl_is_worse(of, (policy, there), (policy, elsewhere))
            return [-better_there, better]

        return compared(by_limit, name, worse_there_only, judge=all_positive)

    over, bias = (Estimate(found.of("Basic", 0.25, CPU, BLIND, measure)) for measure in ("over", "bias"))
    return [
        compared(by_limit, "cpu-is-better", by_mpl_is_worse, judge=most_positive),
        exception("normal-on-all", "Normal", 1.0, 0.25),
        exception("basic-on-few", "Basic", 0.25, 1.0),
        TABLE_1.claim(
            "pessimistic",
            f"bias {text(bias, 1, '%')}; {text(over, 0, '% of jobs')} end before{_cause(found)}",
            all_positive([bias, above(over, ALMOST_ALWAYS_PERCENT)], "points"),
        ),
    ]


def _claims_about_cost(found: Deviations) -> list[Claim]:
    cost = [Estimate(found.of_run(policy, 0.25, "cost_ms")) for policy in POLICIES]
    worst = text(max(cost, key=lambda x: x.high), 4, "ms")
    shortest_s = shortest_exe_s()
    orders = all_positive((below(x, 1e3 * shortest_s / 100) for x in cost), "ms")
    of_table = Estimate(np.mean(cells(found), axis=0))
    without_rule, no_fault = TABLE_1.without_rule, "no fault in any run"
    return [
        TABLE_1.claim("four-ms", f"at most {worst}", all_positive((below(x, LIMIT_MS) for x in cost), "ms")),
        TABLE_1.claim("two-orders", f"{shortest_s:.0f} s against {worst}", orders),
        without_rule("constant-time", "see benchmarks/results"),
        without_rule("analytic-error", f"the mean of all cells of Table 1 is {text(of_table, 1, '%')}"),
        without_rule("mpl-of-four", no_fault),
        without_rule("limits-of-resources", no_fault),
        without_rule("better-than-users"),
    ]


def cells(found: Deviations, mode: str = BLIND) -> Cells:
    """Ours, a row for each cell and a column for each seed."""
    return np.array([found.of(policy, *point, mode) for policy, point in product(POLICIES, POINTS)])


def _distance(of_cells: Cells) -> Sample:
    """Mean distance of all cells from the paper's, in points, by column."""
    return np.asarray(np.abs(of_cells - PUBLISHED[:, None]).mean(axis=0), dtype=np.float64)


def _claim_about_the_table(ours: Cells, others: Mapping[str, Cells]) -> Claim:
    """Judged by our cells, and by those for other inputs."""
    means = ours.mean(axis=1, keepdims=True)
    is_backfilled = np.array([policy in IN_ORDER for policy, _ in product(POLICIES, POINTS)])
    two_numbers = np.where(
        is_backfilled, np.median(PUBLISHED[is_backfilled]), np.median(PUBLISHED[~is_backfilled])
    )
    constants = float(np.abs(two_numbers - PUBLISHED).mean())

    def rank_correlation(which: NDArray[np.bool_]) -> float:
        both = pl.DataFrame({"ours": means[which, 0], "theirs": PUBLISHED[which]})
        return float(both.select(pl.corr("ours", "theirs", method="spearman")).item())

    ranks = {"all": is_backfilled | True, "backfilling": is_backfilled, "others": ~is_backfilled}
    listed = ", ".join(f"{name} {rank_correlation(which):.2f}" for name, which in ranks.items())

    def judged(found: Cells) -> Judged:
        of_means = float(_distance(found.mean(axis=1, keepdims=True))[0])
        return all_positive([exactly(constants - of_means)], "points")

    said = (
        f"the distance of the means is {_distance(means)[0]:.1f} points, by seed "
        f"{text(Estimate(_distance(ours)))}, that of the two numbers {constants:.1f}; rank correlation: "
        f"{listed}"
    )
    inputs = {name: judged(found) for name, found in others.items()}
    return TABLE_1.claim("the-table", said, judged(ours), inputs=inputs)


LOAD = 0.25
"""Of Figure 3."""
REMAINING = ("proportional", "mpl", "cpu")


def claims_on_figure_3(by_limit: ByLimit) -> list[Claim]:
    claim = partial(compared, by_limit, study=FIGURE_3)

    def proportional(of: Of) -> list[Sample]:
        return [
            of(policy, LOAD, ("proportional", by)) - of(policy, LOAD, (other, by))
            for policy, by, other in product(POLICIES, ("mpl", "cpu"), ("mpl", "cpu"))
        ]

    def by_mpl(of: Of, *policies: str) -> list[Sample]:
        return [
            of(policy, LOAD, (remaining, "mpl")) - of(policy, LOAD, (remaining, "cpu"))
            for policy, remaining in product(policies or POLICIES, REMAINING)
        ]

    return [
        claim("proportional-is-bad", proportional),
        claim("by-cpu-is-better", by_mpl, judge=most_positive),
        claim("basic-is-different", lambda of: (-x for x in by_mpl(of, "Basic")), judge=some_positive),
    ]
