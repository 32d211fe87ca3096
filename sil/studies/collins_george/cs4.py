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
from sil.studies.collins_george.cs3 import DISTRIBUTIONS, LEVELS, WITH_LEVELS, queue_tables
from sil.studies.collins_george.site_runs import OVERALL, SiteCase, by_level, run_all
from sil.studies.findings import Findings
from sil.studies.grid_samples import GridSamples, table
from sil.studies.ledger import Claim, all_positive, count_of, text
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


def study(seeds: int, runner: Runner) -> Findings:
    cases = [
        SiteCase({"distribution": d, "rate": rate}, preemptive_settings(d, rate), "pjs", seed)
        for seed, d, rate in product(range(seeds), DISTRIBUTIONS, RATES)
    ]
    found = by_level(run_all(cases, runner), "distribution", "queue", "rate")
    shares = _table(found, SHARE)
    return Findings(
        title="Case study 4: preemptive priority scheduling",
        source="Collins and George 2001, section 5.4",
        method=f"{METHOD} {seeds} seeds; 95 % intervals.",
        claims=[
            *_claims_about_priorities(partial(found, TIME)),
            *_claims_about_rates(partial(found, TIME)),
            *_claims_about_parallelism(partial(found, SHARE)),
        ],
        drawings=[*_drawings(found), _heat_map(TABLE_1, shares)],
        tables={TABLE_1: shares, "Mean job time (s)": _table(found, TIME)},
    )


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


def _claims_about_priorities(time_s: Measure) -> list[Claim]:
    order = [
        interval(time_s(d, lower, r) - time_s(d, upper, r))
        for d, r, (upper, lower) in product(WITH_LEVELS, RATES, pairwise(LEVELS))
    ]
    rarity = [
        interval(time_s(more, "high", r) - time_s(fewer, "high", r))
        for (fewer, more), r in product(RARER, RATES)
    ]
    rare_s = {r: interval(time_s("10/10/80", "high", r)) for r in (1, 32)}
    ratio = interval(time_s("50/25/25", "high", 32) / time_s("10/10/80", "high", 32))
    return [
        Claim(
            "High-priority jobs are done sooner than medium ones, and these sooner than low ones",
            "Figure 8, all charts",
            "both differences are above 0 for every distribution and rate",
            f"{count_of(order)}; least difference {_least(order, 's')}",
            all_positive(order),
        ),
        Claim(
            "The rarer high-priority jobs are, the sooner they are done",
            "Figure 8",
            "high job times grow from 10/10/80 to 25/25/50, and from there to 50/25/25, at every rate",
            f"{count_of(rarity)}; least difference {_least(rarity, 's')}",
            all_positive(rarity),
        ),
        Claim(
            "10/10/80 contains the mean time of high-priority jobs to slightly over 100 s",
            "slightly over 100 s (Figure 8a)",
            "at 32 jobs per quantum between 100 and 200 s",
            f"{text(rare_s[32], 0, 's')} at 32, {text(rare_s[1], 0, 's')} at 1",
            all_positive(ledger.within(rare_s[32], 100.0, 200.0)),
        ),
        Claim(
            "With 50/25/25 they take over four times as long at high rates",
            "over 4 times",
            "the ratio to 10/10/80 at 32 jobs per quantum is above 4",
            f"{text(ratio, 2)} times",
            all_positive([ledger.above(ratio, 4.0)]),
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
    slow_penalty = [
        interval(time_s("10/10/80", OVERALL, r) - time_s(d, OVERALL, r))
        for d, r in product(("25/25/50", "50/25/25"), RATES[:2])
    ]
    others_s = {r: (time_s("25/25/50", OVERALL, r) + time_s("50/25/25", OVERALL, r)) / 2 for r in RATES}
    excess = {r: interval(time_s("10/10/80", OVERALL, r) - others_s[r]) for r in RATES}
    return [
        Claim(
            "Job times generally increase with the rate of arrival",
            "Figures 8 and 9a",
            "the overall mean at 32 per quantum is above that at 1 for every distribution",
            ", ".join(f"{d} {text(x, 0, 's')}" for d, x in growth.items()),
            all_positive(growth.values()),
        ),
        Claim(
            "but not monotonically",
            "Figure 8",
            "the mean time of some priority falls from one rate to the next, for some distribution",
            f"largest fall {text(max(falls, key=lambda x: x.low), 1, 's')}",
            ledger.some_positive(falls),
        ),
        Claim(
            "Preemption with priority generally costs a little in overall performance",
            "Figure 9a",
            "overall time is above that without priority in most cases (distribution and rate)",
            count_of(penalty.values()),
            ledger.most_positive(penalty.values()),
        ),
        Claim(
            "At low rates the penalty is largest for 10/10/80",
            "Figure 9a",
            "at 1 and 2 jobs per quantum, overall time of 10/10/80 is above that of both others",
            ", ".join(f"{d} {text(penalty[d, r], 1, '%')} at {r}" for r in RATES[:2] for d in WITH_LEVELS),
            all_positive(slow_penalty),
        ),
        Claim(
            "The trend reverses after 8 jobs per quantum: then 10/10/80 is best",
            "8 jobs per quantum",
            "overall time of 10/10/80 is above the mean of the others up to 8, and below it at 16 and 32",
            "difference " + ", ".join(f"{text(x, 1, 's')} at {r}" for r, x in excess.items()),
            all_positive(x if r <= 8 else ledger.below(x, 0.0) for r, x in excess.items()),
        ),
    ]


def _claims_about_parallelism(parallel: Measure) -> list[Claim]:
    shares = {d: [interval(parallel(d, OVERALL, r)) for r in (1, 32)] for d in DISTRIBUTIONS}
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
            "Parallelism decreases as the rate of arrival increases",
            "80 % falling to about 16 % (Table 1, Figure 9b)",
            "the overall share falls from every rate to the next, for every distribution",
            ", ".join(f"{d} {text(slow, 0)} to {text(fast, 0, '%')}" for d, (slow, fast) in shares.items()),
            all_positive(fewer_parallel),
        ),
        Claim(
            "Parallelism drops with the priority of the job",
            "Table 1",
            "the share of high jobs is above that of low jobs for every distribution and rate",
            f"{count_of(by_level)}; least difference {_least(by_level, 'points')}",
            all_positive(by_level),
        ),
        Claim(
            "It falls faster with the rate for high-priority jobs where these are more frequent",
            "Table 1",
            "the fall from 1 to 32 grows from 10/10/80 to 25/25/50, and from there to 50/25/25",
            "by " + " and ".join(text(x, 1, "points") for x in faster_fall),
            all_positive(faster_fall),
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
