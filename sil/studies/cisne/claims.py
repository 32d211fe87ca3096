"""What Hanzich et al. 2006 say of Table 1 and Figure 3, claim by claim; and the numbers of Table 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import pairwise, product
from math import inf
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scheduler.time_shared.social_contract import MAX_CPU
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
from sil.studies.rules import Estimate, above, below, count_of, exactly, range_of, text

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
"""The paper's percentages, (MPL-MPL, CPU-CPU) for each load."""
PUBLISHED = np.array([PAPER[policy][k][m] for policy in POLICIES for k in range(len(LOADS)) for m in (0, 1)])
"""The 30 cells of the paper, in order of policies and POINTS."""
MPL, CPU = METHODS.values()
CELLS = tuple(product(POLICIES, LOADS))
POINTS = tuple(product(LOADS, METHODS.values()))
IN_ORDER = {"Norm+BF": "Normal", "Unif+BF": "Uniform"}
"""The policy without backfilling for each one with it."""
BACKFILLED = tuple((policy, *point) for policy, point in product(IN_ORDER, POINTS))

ByLimit = Mapping[float, Deviations]
"""Deviations under each limit of the CPU requirements on a node; the headline is MAX_CPU."""
Of = Callable[..., Sample]
"""`Deviations.of` for one predictor."""
Measure = Callable[[Of], Iterable[Sample]]
"""The quantities that a claim is about."""
Margin = Callable[[Estimate], Estimate]
Cells = NDArray[np.float64]


def limit_title(limit: float) -> str:
    return "no limit" if limit == inf else f"{limit:g} CPU"


def compared(
    by_limit: ByLimit,
    name: str,
    measure: Measure,
    margin: Margin = lambda x: x,
    study: Study = TABLE_1,
    cause: str = "",
) -> Claim:
    """A claim on quantities, or on their margins: by each predictor, and under each limit. It is judged by
    the predictions of the blind predictor, which seems to be the paper's. The paper names neither that nor a
    limit: the policy-aware one, and other limits, are as admissible."""
    modes = {mode: partial(by_limit[MAX_CPU].of, mode=mode) for mode in (BLIND, AWARE)}
    others = {limit_title(limit): found.of for limit, found in by_limit.items() if limit != MAX_CPU}
    cases = {variant: [Estimate(x) for x in measure(of)] for variant, of in (modes | others).items()}
    margins = {variant: [*map(margin, found)] for variant, found in cases.items()}
    said = {mode: f"{count_of(margins[mode])}; {range_of(cases[mode], study.unit(name))}" for mode in modes}
    ours = "; ".join(f"{mode}: {of_mode}" for mode, of_mode in said.items())
    if said[BLIND] == said[AWARE]:  # predictions do not matter, or no job overtakes another
        ours = said[BLIND]
        del margins[AWARE]
    return study.claim(name, margins.pop(BLIND), ours + cause, inputs=margins)


def _worse(of: Of, than: Mapping[str, str]) -> list[Sample]:
    """How much more policies deviate than others."""
    pairs = product(than.items(), POINTS)
    return [of(policy, *point) - of(other, *point) for (policy, other), point in pairs]


def _basic_is_worse(of: Of, where_jobs_wait_longer: bool = False) -> list[Sample]:
    waiting_s = partial(of, methods=CPU, measure="waiting_s")
    return [
        of("Basic", *point) - of(other, *point)
        for point, other in product(POINTS, ("Normal", "Uniform"))
        if not where_jobs_wait_longer
        or Estimate(waiting_s("Basic", point[0]) - waiting_s(other, point[0])).low > 0
    ]


def _falls(of: Of, points: Iterable[Any], **what: Any) -> list[Sample]:
    """How much a measure falls with each step of the load, with backfilling."""
    steps = product(IN_ORDER, pairwise(LOADS), points)
    return [
        of(policy, less, *pair, **what) - of(policy, more, *pair, **what)
        for policy, (less, more), pair in steps
    ]


def _over(of: Of) -> list[Sample]:
    return [of(*cell, measure="over") for cell in BACKFILLED]


def _by_mpl_is_worse(of: Of, cells: Iterable[tuple[str, float]] = CELLS) -> list[Sample]:
    return [of(*cell, MPL) - of(*cell, CPU) for cell in cells]


def _exception(of: Of, policy: str, there: float, elsewhere: float) -> list[Sample]:
    """How much worse CPU is than MPL at one load, and how much better elsewhere."""
    better_there, better = _by_mpl_is_worse(of, ((policy, there), (policy, elsewhere)))
    return [-better_there, better]


MEASURES: dict[str, Measure] = {
    "in-order-is-better": lambda of: _worse(of, IN_ORDER),
    "uniform-is-better": lambda of: _worse(of, {"Normal": "Uniform"}),
    "twelve-percent": lambda of: (of("Uniform", *point) for point in POINTS),
    "same-resources": lambda of: _worse(of, {"Normal": MIXED}),
    "basic-is-worse": _basic_is_worse,
    "long-queue": lambda of: _basic_is_worse(of, where_jobs_wait_longer=True),
    "order-varies": lambda of: (of(*c, mode=BLIND) - of(*c, mode=AWARE) for c in BACKFILLED),
    "almost-always": _over,
    "never": lambda of: (100 - x for x in _over(of)),
    "load-helps": lambda of: _falls(of, [(pair,) for pair in METHODS.values()]),
    "fewer-chances": lambda of: _falls(of, [(CPU,)], measure="backfilled"),
    "mixing-helps": lambda of: (
        of("Normal", load, CPU, measure="turnaround_s") - of("Uniform", load, CPU, measure="turnaround_s")
        for load in LOADS
    ),
    "cpu-is-better": _by_mpl_is_worse,
    "normal-on-all": lambda of: _exception(of, "Normal", 1.0, 0.25),
    "basic-on-few": lambda of: _exception(of, "Basic", 0.25, 1.0),
}
"""The measures of the claims on Table 1, in their order."""
MARGINS: dict[str, Margin] = {
    "twelve-percent": lambda x: below(x, REACHED_PERCENT),
    "almost-always": lambda x: above(x, ALMOST_ALWAYS_PERCENT),
    "never": lambda x: below(x, NEVER_PERCENT),
}
"""The margins of claims that are not on the quantities themselves."""


def claims_on_table_1(by_limit: ByLimit) -> list[Claim]:
    found = by_limit[MAX_CPU]
    biases = [float(found.of(*cell, CPU, BLIND, "bias").mean()) for cell in CELLS]
    cause = (
        f"; the cause: predictions by CPU-CPU are too early on average in {sum(x < 0 for x in biases)} of "
        f"{len(CELLS)} cells, since this cluster is slower than Algorithm 1 knows"
    )
    causes = dict.fromkeys(("almost-always", "never", "load-helps"), cause)
    over, bias = (Estimate(found.of("Basic", 0.25, CPU, BLIND, measure)) for measure in ("over", "bias"))
    early = f"bias {text(bias, 1, '%')}; {text(over, 0, '% of jobs')} end before{cause}"
    of_limits = {limit_title(limit): cells(of) for limit, of in by_limit.items() if limit != MAX_CPU}
    distances = {limit: Estimate(_distance(cells(of))) for limit, of in by_limit.items()}
    listed = "; ".join(f"{limit_title(limit)}: {text(x)} points" for limit, x in distances.items())
    return [
        *(
            compared(by_limit, name, measure, MARGINS.get(name, lambda x: x), cause=causes.get(name, ""))
            for name, measure in MEASURES.items()
        ),
        TABLE_1.claim("pessimistic", [bias, above(over, ALMOST_ALWAYS_PERCENT)], early),
        *_claims_about_cost(found),
        TABLE_1.without_rule("cpu-is-limited", listed),
        _claim_about_the_table(cells(found), {AWARE: cells(found, AWARE)} | of_limits),
    ]


def _claims_about_cost(found: Deviations) -> list[Claim]:
    cost = [Estimate(found.of_run(policy, 0.25, "cost_ms")) for policy in POLICIES]
    worst = text(max(cost, key=lambda x: x.high), 4, "ms")
    shortest_s = shortest_exe_s()
    orders = [below(x, 1e3 * shortest_s / 100) for x in cost]
    of_table = Estimate(np.mean(cells(found), axis=0))
    without_rule, no_fault = TABLE_1.without_rule, "no fault in any run"
    return [
        TABLE_1.claim("four-ms", (below(x, LIMIT_MS) for x in cost), f"at most {worst}"),
        TABLE_1.claim("two-orders", orders, f"{shortest_s:.0f} s against {worst}"),
        without_rule("constant-time", "see benchmarks/results"),
        without_rule("analytic-error", f"the mean of all cells of Table 1 is {text(of_table, 1, '%')}"),
        without_rule("mpl-of-four", no_fault),
        without_rule("limits-of-resources", no_fault),
        without_rule("better-than-users"),
    ]


def cells(found: Deviations, mode: str = BLIND) -> Cells:
    """Our cells, a row for each cell and a column for each seed."""
    return np.array([found.of(policy, *point, mode) for policy, point in product(POLICIES, POINTS)])


def _distance(of_cells: Cells) -> Sample:
    return np.asarray(np.abs(of_cells - PUBLISHED[:, None]).mean(axis=0), dtype=np.float64)


def _claim_about_the_table(ours: Cells, others: Mapping[str, Cells]) -> Claim:
    """The claim about the table, judged by our cells, and by those for other inputs."""
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

    def margin(found: Cells) -> list[Estimate]:
        return [exactly(constants - float(_distance(found.mean(axis=1, keepdims=True))[0]))]

    said = (
        f"the distance of the means is {_distance(means)[0]:.1f} points, by seed "
        f"{text(Estimate(_distance(ours)))}, that of the two numbers {constants:.1f}; rank correlation: "
        f"{listed}"
    )
    inputs = {name: margin(found) for name, found in others.items()}
    return TABLE_1.claim("the-table", margin(ours), said, inputs=inputs)


LOAD = 0.25
"""The load of Figure 3."""
REMAINING = ("proportional", "mpl", "cpu")


def _by_mpl(of: Of, policies: Iterable[str] = POLICIES) -> list[Sample]:
    return [
        of(policy, LOAD, (remaining, "mpl")) - of(policy, LOAD, (remaining, "cpu"))
        for policy, remaining in product(policies, REMAINING)
    ]


OF_FIGURE_3: dict[str, Measure] = {
    "proportional-is-bad": lambda of: (
        of(policy, LOAD, ("proportional", by)) - of(policy, LOAD, (other, by))
        for policy, by, other in product(POLICIES, ("mpl", "cpu"), ("mpl", "cpu"))
    ),
    "by-cpu-is-better": _by_mpl,
    "basic-is-different": lambda of: (-x for x in _by_mpl(of, ["Basic"])),
}


def claims_on_figure_3(by_limit: ByLimit) -> list[Claim]:
    return [compared(by_limit, name, measure, study=FIGURE_3) for name, measure in OF_FIGURE_3.items()]
