"""Fourth case study of Collins and George 2001: preemptive priority, over the rate of arrival."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import polars as pl

from sil.outcome.statistics import interval
from sil.report.figures import WIDTH, lines
from sil.report.page import Part
from sil.report.vega_lite import Figure, column, either, layer
from sil.studies.collins_george import cs4_claims, perturbed
from sil.studies.collins_george.cs3 import DISTRIBUTIONS, LEVELS, WITH_LEVELS, queue_tables
from sil.studies.collins_george.cs4_claims import LOOKS, RATES, SHARE, TIME
from sil.studies.collins_george.perturbed import AS_BUILT_IN, judged_on_sites
from sil.studies.collins_george.site_runs import OVERALL, SiteCase, by_level, run_all
from sil.studies.findings import Findings
from sil.studies.grid_samples import GridSamples, table
from sil.workers.runner import Runner

JOBS = 500
QUANTUM_S = 10.0
RATE_TITLE = "Mean arrivals per quantum of 10 s (jobs)"
TABLE_1 = "Table 1: share of jobs run in parallel (%)"

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
    claims = judged_on_sites(lambda site: cs4_claims.claims(_measured(seeds, runner, site), seeds), sites)
    found = _measured(seeds, runner).up_to(seeds)
    shares = _table(found, SHARE)
    return Findings(
        title="Case study 4: preemptive priority scheduling",
        source="Collins and George 2001, section 5.4",
        method=f"{METHOD}{f' {perturbed.METHOD}' if sites else ''} {seeds} seeds; two "
        f"claims that these do not decide are examined again with twice as many, up to {LOOKS} times, where "
        f"they are open; 95 % intervals.",
        claims=claims,
        drawings=[*_drawings(found), _heat_map(TABLE_1, shares)],
        tables={TABLE_1: shares, "Mean job time (s)": _table(found, TIME)},
    )


def _measured(seeds: int, runner: Runner, site: int = AS_BUILT_IN) -> GridSamples:
    """With `seeds` replications at each point of the grid, and more where claims are undecided."""
    points = set(product(DISTRIBUTIONS, RATES))
    rows, first, last = [], 0, seeds
    while True:
        cases = [_case(k, *point, site) for k in range(first, last) for point in sorted(points)]
        runner.total = runner.done + len(cases)
        rows.append(run_all(cases, runner))
        found = by_level(pl.concat(rows), "distribution", "queue", "rate")
        points = cs4_claims.undecided(found)
        first, last = last, 2 * last
        if not points or last > seeds * 2 ** (LOOKS - 1):
            return found


def _case(seed: int, distribution: str, rate: int, site: int) -> SiteCase:
    labels: dict[str, str | int | float] = {"distribution": distribution, "rate": rate}
    return SiteCase(labels, preemptive_settings(distribution, rate), "pjs", seed, site)


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
