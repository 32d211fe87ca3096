"""Fourth case study of Collins and George 2001: preemptive priority, over the rate of arrival."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise, product
from typing import Any

import polars as pl

from sil.outcome.statistics import Interval, Sample, interval
from sil.report.figures import WIDTH, lines
from sil.report.page import Part
from sil.report.vega_lite import Figure, column, either, layer
from sil.studies import ledger
from sil.studies.collins_george import cs4_statements as stated
from sil.studies.collins_george import perturbed
from sil.studies.collins_george.cs3 import DISTRIBUTIONS, LEVELS, WITH_LEVELS, queue_tables
from sil.studies.collins_george.perturbed import AS_BUILT_IN, judged_on_sites
from sil.studies.collins_george.site_runs import OVERALL, SiteCase, by_level, run_all
from sil.studies.findings import Findings
from sil.studies.grid_samples import GridSamples, table
from sil.studies.ledger import (
    SLIGHT_PERCENT,
    Claim,
    all_positive,
    count_of,
    text,
    within,
)
from sil.workers.runner import Runner

RATES = (1, 2, 4, 8, 16, 32)
JOBS = 500
QUANTUM_S = 10.0
RATE_TITLE = "Mean arrivals per quantum of 10 s (jobs)"
RARER = tuple(pairwise(WITH_LEVELS))
"""Pairs of distributions; high-priority jobs are rarer in the first."""
TIME, SHARE = "time_s", "parallel_percent"
TABLE_1 = "Table 1: share of jobs run in parallel (%)"

Measure = Callable[..., Sample]
"""A measure at a point of the grid: distribution, level, rate."""

METHOD = (
    "500 jobs under PJS, arriving as a Poisson process of 1 to 32 jobs per quantum of 10 s, class and "
    "priority drawn at random. The scheduler runs at each quantum boundary on new and preempted jobs; "
    "mapped jobs stay mapped. High jobs see ready times as if there were no low jobs; each low job, "
    "running or mapped, that overlaps a new high run on a machine loses all progress and rejoins its queue "
    "at the same boundary. Runs behind it keep their planned starts. Without priority there is one queue "
    "and no preemption. Job time is completion less arrival. The real manager and scheduler run in the "
    "harness; execution times are exact and synthetic. Common random numbers: all distributions see the "
    "same arrivals and classes, so differences between them are paired."
)


def study(seeds: int, runner: Runner, sites: int = 0) -> Findings:
    """The claims are also judged on `sites` perturbed sites, with as many seeds."""
    runner.total = (2 + sites) * len(_cases(seeds))
    claims = judged_on_sites(lambda site: _claims(_measured(_cases(seeds, site), runner)), sites)
    found = _measured(_cases(seeds), runner)
    shares = _table(found, SHARE)
    return Findings(
        title="Case study 4: preemptive priority scheduling",
        source="Collins and George 2001, section 5.4",
        method=f"{METHOD}{f' {perturbed.METHOD}' if sites else ''} {seeds} seeds; 95 % intervals.",
        claims=claims,
        drawings=[*_drawings(found), _heat_map(TABLE_1, shares)],
        tables={TABLE_1: shares, "Mean job time (s)": _table(found, TIME)},
    )


def _cases(seeds: int, site: int = AS_BUILT_IN) -> list[SiteCase]:
    return [
        SiteCase({"distribution": d, "rate": rate}, preemptive_settings(d, rate), "pjs", seed, site)
        for seed, d, rate in product(range(seeds), DISTRIBUTIONS, RATES)
    ]


def _measured(cases: list[SiteCase], runner: Runner) -> GridSamples:
    return by_level(run_all(cases, runner), "distribution", "queue", "rate")


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


def _claims(found: GridSamples) -> list[Claim]:
    return [
        *_claims_about_priorities(partial(found, TIME)),
        *_claims_about_rates(partial(found, TIME)),
        *_claims_about_parallelism(partial(found, SHARE)),
    ]


def _claims_about_priorities(time_s: Measure) -> list[Claim]:
    order = [
        interval(time_s(d, lower, r) - time_s(d, upper, r))
        for d, r, (upper, lower) in product(WITH_LEVELS, RATES, pairwise(LEVELS))
    ]
    rarity = [
        interval(time_s(more, "high", r) - time_s(fewer, "high", r))
        for (fewer, more), r in product(RARER, RATES)
    ]
    rare_s = {r: interval(time_s("10/10/80", "high", r)) for r in RATES}
    longest_s = max(rare_s.values(), key=lambda x: x.mean)
    ratio = interval(time_s("50/25/25", "high", 32) / time_s("10/10/80", "high", 32))
    return [
        Claim(
            stated.ORDER,
            f"{count_of(order)}; least difference {_least(order, 's')}",
            all_positive(order, "s"),
        ),
        Claim(
            stated.RARITY,
            f"{count_of(rarity)}; least difference {_least(rarity, 's')}",
            all_positive(rarity, "s"),
        ),
        Claim(
            stated.CONTAINED,
            f"{text(longest_s, 0, 's')}; {text(rare_s[32], 0, 's')} at 32, {text(rare_s[1], 0, 's')} at 1",
            all_positive(within(longest_s, 100.0, 100.0 + SLIGHT_PERCENT), "s"),
        ),
        Claim(
            stated.FOUR_TIMES,
            f"{text(ratio, 2)} times",
            all_positive([ledger.above(ratio, 4.0)], "times"),
        ),
    ]


def _claims_about_rates(time_s: Measure) -> list[Claim]:
    growth = {d: interval(time_s(d, OVERALL, 32) - time_s(d, OVERALL, 1)) for d in DISTRIBUTIONS}
    falls = [
        interval(time_s(d, level, slow) - time_s(d, level, fast))
        for d, level, (slow, fast) in product(WITH_LEVELS, LEVELS, pairwise(RATES))
    ]
    penalty = {
        (d, r): interval(100 * (time_s(d, OVERALL, r) / time_s("none", OVERALL, r) - 1))
        for d, r in product(WITH_LEVELS, RATES)
    }
    slight = [ledger.inside(x, 0.0, SLIGHT_PERCENT) for x in penalty.values()]
    slow_penalty = [
        interval(time_s("10/10/80", OVERALL, r) - time_s(d, OVERALL, r))
        for d, r in product(("25/25/50", "50/25/25"), RATES[:2])
    ]
    others_s = {r: (time_s("25/25/50", OVERALL, r) + time_s("50/25/25", OVERALL, r)) / 2 for r in RATES}
    excess = {r: interval(time_s("10/10/80", OVERALL, r) - others_s[r]) for r in RATES}
    return [
        Claim(
            stated.GROWTH,
            ", ".join(f"{d} {text(x, 0, 's')}" for d, x in growth.items()),
            all_positive(growth.values(), "s"),
        ),
        Claim(
            stated.NOT_MONOTONIC,
            f"largest fall {text(max(falls, key=lambda x: x.low), 1, 's')}",
            ledger.some_positive(falls, "s"),
        ),
        Claim(
            stated.SLIGHT_COST,
            f"{count_of(slight)}; {ledger.range_of(list(penalty.values()), '%')}",
            ledger.most_positive(slight, "points"),
        ),
        Claim(
            stated.LOW_RATES,
            ", ".join(f"{d} {text(penalty[d, r], 1, '%')} at {r}" for r in RATES[:2] for d in WITH_LEVELS),
            all_positive(slow_penalty, "s"),
        ),
        Claim(
            stated.REVERSAL,
            "difference " + ", ".join(f"{text(x, 1, 's')} at {r}" for r, x in excess.items()),
            all_positive((x if r <= 8 else ledger.below(x, 0.0) for r, x in excess.items()), "s"),
        ),
    ]


def _claims_about_parallelism(parallel: Measure) -> list[Claim]:
    shares = {d: [interval(parallel(d, OVERALL, r)) for r in (1, 32)] for d in DISTRIBUTIONS}
    listed = ", ".join(f"{d} {text(slow, 0)} to {text(fast, 0, '%')}" for d, (slow, fast) in shares.items())
    fewer_parallel = [
        interval(parallel(d, OVERALL, slow) - parallel(d, OVERALL, fast))
        for d, (slow, fast) in product(DISTRIBUTIONS, pairwise(RATES))
    ]
    by_level = [
        interval(parallel(d, "high", r) - parallel(d, "low", r)) for d, r in product(WITH_LEVELS, RATES)
    ]
    fall = {d: parallel(d, "high", 1) - parallel(d, "high", 32) for d in WITH_LEVELS}
    faster_fall = [interval(fall[more] - fall[fewer]) for fewer, more in RARER]
    return [
        Claim(
            stated.LESS_PARALLEL,
            listed,
            all_positive(fewer_parallel, "points"),
        ),
        ledger.not_testable(
            "The shares of jobs run in parallel are those of Table 1",
            "Table 1, whose numbers are illegible in the text of the paper that is available",
            "no number can be read",
            listed,
        ),
        Claim(
            stated.LEVELS_PARALLEL,
            f"{count_of(by_level)}; least difference {_least(by_level, 'points')}",
            all_positive(by_level, "points"),
        ),
        Claim(
            stated.FASTER_FALL,
            "by " + " and ".join(text(x, 1, "points") for x in faster_fall),
            all_positive(faster_fall, "points"),
        ),
    ]


def _least(found: Iterable[Interval], unit: str) -> str:
    return text(min(found, key=lambda x: x.low), 1, unit)


def _table(found: GridSamples, measure: str) -> pl.DataFrame:
    rows = [
        (d, level, *(round(found.mean(measure, d, level, rate), 1) for rate in RATES))
        for d in DISTRIBUTIONS
        for level in (*(LEVELS if d != "none" else ()), OVERALL)
    ]
    return table(("distribution", "priority", *map(str, RATES)), rows)


def _drawings(found: GridSamples) -> Iterator[Part]:
    overall = {"no priority" if d == "none" else d: (d, OVERALL) for d in DISTRIBUTIONS}
    charts: dict[str, tuple[str, str, str, dict[str, tuple[str, str]]]] = {
        f"8{letter}": (
            f"mean job time by priority, {d}",
            TIME,
            "Priority",
            {level: (d, level) for level in LEVELS},
        )
        for letter, d in zip("abc", WITH_LEVELS, strict=True)
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


def _heat_map(title: str, shares: pl.DataFrame) -> Part:
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
    return Part(title, chart.properties(width=WIDTH, height=320), name="table-1")
