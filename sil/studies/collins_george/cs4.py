"""Fourth case study of Collins and George 2001: preemptive priority, over the rate of arrival."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
import polars as pl

from sil.outcome.statistics import Sample, interval
from sil.report.figures import WIDTH, lines
from sil.report.page import Part
from sil.report.vega_lite import Figure, column, either, layer
from sil.studies.collins_george.cs3 import DISTRIBUTIONS, LEVELS, WITH_LEVELS, queue_tables
from sil.studies.collins_george.site_runs import AS_BUILT_IN, OVERALL, PERTURBED, SiteCase, by_level, run_all
from sil.studies.ledger import SLIGHT_PERCENT, Claim, Findings, Study, judged_on_sites
from sil.studies.rules import (
    MOST,
    Estimate,
    GridSamples,
    Verdict,
    above,
    all_positive,
    below,
    count_of,
    inside,
    positive,
    range_of,
    table,
    text,
    within,
)
from sil.workers.runner import Runner

JOBS = 500
QUANTUM_S = 10.0
RATES = (1, 2, 4, 8, 16, 32)
LOW, HIGH = RATES[:2], RATES[-2:]
RARER = tuple(pairwise(WITH_LEVELS))
"""Pairs of distributions; high-priority jobs are rarer in the first."""
TIME, SHARE = "time_s", "parallel_percent"
EXCESS = "excess_s"
"""Its differences have the means of those of TIME, since classes do not depend on priorities; but they do not
vary with the classes that were drawn."""
LOOKS = 5
"""The most looks at the claims on the order of priorities and on rarity, each with twice as many seeds at the
points that do not decide."""
MIDDLE_PERCENT = 50.0
STUDY = Study(
    "cs4", contained_s=100.0 + SLIGHT_PERCENT, middle_percent=MIDDLE_PERCENT, slight_percent=SLIGHT_PERCENT
)

RATE_TITLE = "Mean arrivals per quantum of 10 s (jobs)"
TABLE_1 = "Table 1: share of jobs run in parallel (%)"

Point = tuple[str, int]
"""Distribution and rate."""
Measure = Callable[..., Sample]
"""A measure at a point of the grid: distribution, level, rate."""


def study(seeds: int, runner: Runner, sites: int = 0) -> Findings:
    """The claims are also judged on `sites` perturbed sites, with as many seeds."""
    claims = judged_on_sites(lambda site: _claims(_measured(seeds, runner, site), seeds), sites)
    found = _measured(seeds, runner).up_to(seeds)
    shares = _table(found, SHARE)
    return STUDY.findings(
        claims,
        [*_drawings(found), _heat_map(shares)],
        {TABLE_1: shares, "Mean job time (s)": _table(found, TIME)},
        perturbed=f" {PERTURBED}" if sites else "",
        seeds=seeds,
        looks=LOOKS,
    )


def _measured(seeds: int, runner: Runner, site: int = AS_BUILT_IN) -> GridSamples:
    """Measure with `seeds` replications at each point of the grid, and more where claims are undecided."""
    points = set(product(DISTRIBUTIONS, RATES))
    rows, first, last = [], 0, seeds
    while True:
        cases = [
            SiteCase({"distribution": d, "rate": rate}, preemptive_settings(d, rate), "pjs", k, site)
            for k in range(first, last)
            for d, rate in sorted(points)
        ]
        runner.total = runner.done + len(cases)
        rows.append(run_all(cases, runner))
        found = by_level(pl.concat(rows), "distribution", "queue", "rate")
        points = _undecided(found)
        first, last = last, 2 * last
        if not points or last > seeds * 2 ** (LOOKS - 1):
            return found


def preemptive_settings(distribution: str, rate: int) -> dict[str, Any]:
    """What the fourth case study sets in an experiment."""
    return {
        "workload": {
            "jobs": JOBS,
            "queues": DISTRIBUTIONS[distribution],
            "arrivals": {"kind": "poisson", "jobs_per_quantum": float(rate), "quantum_s": QUANTUM_S},
        },
        "rounds": {"kind": "every_quantum", "quantum_s": QUANTUM_S},
        "queues": queue_tables(distribution, displaces=distribution != "none"),
        "planned_starts": "kept",
    }


# -- claims --------------------------------------------------------------------------------------------------


def _undecided(found: GridSamples) -> set[Point]:
    return {
        point
        for of_claim in (_order(partial(found, EXCESS)), _rarity(partial(found, EXCESS)))
        if all_positive(of_claim.values()).verdict is Verdict.INCONCLUSIVE
        for points, x in of_claim.items()
        if positive(x) is not Verdict.HOLDS
        for point in points[:2]
    }


def _order(time_s: Measure) -> dict[tuple[Point, Point, str], Estimate]:
    """How much longer the next lower priority takes."""
    return {
        ((d, r), (d, r), upper): Estimate(time_s(d, lower, r) - time_s(d, upper, r), LOOKS)
        for d, r, (upper, lower) in product(WITH_LEVELS, RATES, pairwise(LEVELS))
    }


def _rarity(time_s: Measure) -> dict[tuple[Point, Point], Estimate]:
    """How much longer high-priority jobs take where there are more of them."""
    found = {}
    for (fewer, more), r in product(RARER, RATES):
        of_fewer, of_more = time_s(fewer, "high", r), time_s(more, "high", r)
        both = min(len(of_fewer), len(of_more))
        found[(fewer, r), (more, r)] = Estimate(of_more[:both] - of_fewer[:both], LOOKS)
    return found


def _claims(found: GridSamples, seeds: int) -> list[Claim]:
    first = found.up_to(seeds)
    return [
        *_claims_about_order(partial(found, EXCESS)),
        *claims_about_high_jobs(partial(first, TIME)),
        *claims_about_rates(partial(first, TIME)),
        *claims_about_parallelism(partial(first, SHARE)),
        *_claims_about_displacement(first),
        *_claims_about_clusters(first),
    ]


def _claims_about_order(time_s: Measure) -> list[Claim]:
    cases = {"order": [*_order(time_s).values()], "rarity": [*_rarity(time_s).values()]}
    seeds = max(len(x.values) for found in cases.values() for x in found)
    return [
        STUDY.claim(
            name, found, f"{count_of(found)}; least difference {_least(found, 's')}; up to {seeds} seeds"
        )
        for name, found in cases.items()
    ]


def claims_about_high_jobs(time_s: Measure) -> list[Claim]:
    rare_s = {r: Estimate(time_s("10/10/80", "high", r)) for r in RATES}
    longest_s = max(rare_s.values(), key=lambda x: x.mean)
    # the largest of several means is not one of them, chosen beforehand
    contained = [above(Estimate(longest_s.values, looks=len(RATES)), 100.0)]
    contained += [below(x, 100.0 + SLIGHT_PERCENT) for x in rare_s.values()]
    ratio = Estimate(time_s("50/25/25", "high", 32) / time_s("10/10/80", "high", 32))
    longest, fast, slow = (text(x, 0, "s") for x in (longest_s, rare_s[32], rare_s[1]))
    return [
        STUDY.claim("contained", contained, f"{longest}; {fast} at 32, {slow} at 1"),
        STUDY.claim("four-times", [above(ratio, 4.0)], f"{text(ratio, 2)} times"),
    ]


def claims_about_rates(time_s: Measure) -> list[Claim]:
    claim = STUDY.claim
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
        for d, r in product(("25/25/50", "50/25/25"), LOW)
    ]
    others_s = {r: (time_s("25/25/50", OVERALL, r) + time_s("50/25/25", OVERALL, r)) / 2 for r in RATES}
    excess = {r: Estimate(time_s("10/10/80", OVERALL, r) - others_s[r]) for r in RATES}
    reversal = (x if r <= 8 else below(x, 0.0) for r, x in excess.items())
    largest_fall = text(max(falls, key=lambda x: x.low), 1, "s")
    at_low_rates = (f"{d} {text(penalty[d, r], 1, '%')} at {r}" for r in LOW for d in WITH_LEVELS)
    differences = ", ".join(f"{text(x, 1, 's')} at {r}" for r, x in excess.items())
    costs = f"{count_of(slight)}; {range_of(list(penalty.values()), '%')}"
    return [
        claim("growth", growth),
        claim("not-monotonic", falls, f"largest fall {largest_fall}"),
        claim("slight-cost", slight, costs),
        claim("low-rates", slow_penalty, ", ".join(at_low_rates)),
        claim("reversal", reversal, f"difference {differences}"),
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
    of_levels = f"{count_of(by_level)}; least difference {_least(by_level, 'points')}"
    fall = {d: parallel(d, "high", 1) - parallel(d, "high", 32) for d in WITH_LEVELS}
    faster = [Estimate(fall[more] - fall[fewer]) for fewer, more in RARER]
    by_points = " and ".join(text(x, 1, "points") for x in faster)
    return [
        STUDY.claim("less-parallel", fewer_parallel, listed),
        STUDY.without_rule("shares-of-table-1", listed),
        STUDY.claim("levels-parallel", by_level, of_levels),
        STUDY.claim("faster-fall", faster, f"by {by_points}"),
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
    on_cluster = {r: _of_known(found("often_parallel_percent", rare, "low", r)) for r in LOW}
    progressed = ", ".join(f"{d} {text(x, 0, '%')} at {r}" for (d, r), x in at_low_rates.items())
    in_parallel = ", ".join(f"{text(x, 0, '%')} at {r}" for r, x in on_cluster.items())
    most = (above(x, 100 * float(MOST)) for x in on_cluster.values())
    return [
        STUDY.claim("well-into", (above(x, MIDDLE_PERCENT) for x in at_low_rates.values()), progressed),
        STUDY.claim("most-well-into", more),
        STUDY.claim("ends-on-cluster", most, in_parallel),
    ]


def _of_known(values: Sample) -> Estimate:
    """An estimate from the replications that have a value."""
    return Estimate(values[np.isfinite(values)])


def _claims_about_clusters(found: GridSamples) -> list[Claim]:
    def less_medium(measure: str) -> list[Sample]:
        points = product(WITH_LEVELS, LOW)
        return [found(measure, d, "high", r) - found(measure, d, "medium", r) for d, r in points]

    shares = [Estimate(x) for x in less_medium(SHARE)]
    alike = (y for x in shares for y in within(x, -SLIGHT_PERCENT, SLIGHT_PERCENT))
    slower = [Estimate(-x) for x in less_medium("cluster_run_s")]
    return [
        STUDY.claim("alike", alike, f"difference {range_of(shares, 'points')}"),
        STUDY.claim("best-clusters", slower),
    ]


# -- tables and drawings -------------------------------------------------------------------------------------


def _table(found: GridSamples, measure: str) -> pl.DataFrame:
    rows = [
        (d, level, *(round(found.mean(measure, d, level, rate), 1) for rate in RATES))
        for d in DISTRIBUTIONS
        for level in (*(LEVELS if d != "none" else ()), OVERALL)
    ]
    return table(("distribution", "priority", *map(str, RATES)), rows)


def _drawings(found: GridSamples) -> Iterator[Part]:
    overall = {"no priority" if d == "none" else d: (d, OVERALL) for d in DISTRIBUTIONS}
    of_levels = [(d, {level: (d, level) for level in LEVELS}) for d in WITH_LEVELS]
    charts: dict[str, tuple[str, str, str, dict[str, tuple[str, str]]]] = {
        f"8{letter}": (f"mean job time by priority, {d}", TIME, "Priority", named)
        for letter, (d, named) in zip("abc", of_levels, strict=True)
    }
    charts["9a"] = ("mean job time of all jobs by priority distribution", TIME, "Distribution", overall)
    charts["9b"] = ("share of jobs run in parallel by priority distribution", SHARE, "Distribution", overall)
    y_titles = {TIME: "Mean job time (s)", SHARE: "Jobs run in parallel (%)"}
    for number, (title, measure, legend, named) in charts.items():
        points = [
            (float(rate), name, interval(found(measure, *of, rate)))
            for (name, of), rate in product(named.items(), RATES)
        ]
        chart = lines(points, RATE_TITLE, y_titles[measure], legend)
        yield Part(f"Figure {number}: {title}", chart, name=f"figure-{number}")


def _heat_map(shares: pl.DataFrame) -> Part:
    of = pl.format("{}, {}", "distribution", "priority").str.replace("none, overall", "no priority")
    cells = shares.select(of.alias("of"), pl.all().exclude("distribution", "priority"))
    axes = Figure(cells.unpivot(index="of", variable_name="rate", value_name="share")).encode(
        x=column("rate:O", title=RATE_TITLE, sort=None, axis={"labelAngle": 0, "orient": "top"}),
        y=column("of:N", title=None, sort=None),
    )
    colour = column("share:Q", scale={"domain": [0, 100], "scheme": "blues"}, title="Jobs in parallel (%)")
    ink = either("datum.share > 55", "white", "black")
    numbers = axes.mark("text").encode(text=column("share:Q", format=".0f"), color=ink)
    chart = layer(axes.mark("rect").encode(color=colour), numbers)
    return Part(TABLE_1, chart.properties(width=WIDTH, height=320), name="table-1")
