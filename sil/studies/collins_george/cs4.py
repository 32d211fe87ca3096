"""Fourth case study of Collins and George 2001: preemptive priority, over the rate of arrival."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import altair as alt
import polars as pl

from sil.outcome.statistics import Interval, Sample, interval
from sil.report.figures import WIDTH, Figure, series_of_means
from sil.studies.collins_george.cs3 import DISTRIBUTIONS, LEVELS, WITH_LEVELS, queue_tables
from sil.studies.collins_george.site_runs import Case, run_all
from sil.studies.findings import Drawing, Findings
from sil.studies.ledger import (
    Claim,
    Verdict,
    all_positive,
    counted,
    less,
    most_positive,
    positive,
    shown,
    some_positive,
)
from sil.studies.run_options import Course

RATES = (1, 2, 4, 8, 16, 32)
JOBS = 500
QUANTUM_S = 10.0
OVERALL = "overall"

METHOD = (
    "500 jobs under PJS, arriving as a Poisson process of 1 to 32 jobs per quantum of 10 s, class and "
    "priority drawn at random. The scheduler runs at each quantum boundary on new and preempted jobs; "
    "what is mapped stays mapped. High jobs see ready times as if there were no low job; each low job, "
    "running or mapped, that overlaps a new high run on a machine loses all progress and rejoins its "
    "queue at the same boundary. Runs behind it keep their planned starts. Without priority there is one "
    "queue and no preemption. Job time is completion less arrival. The real manager and scheduler in the "
    "harness; execution times are exact and synthetic. All distributions meet the same arrivals and "
    "classes, so differences between them are paired."
)


class Sampled:
    """Mean job times and parallel shares by distribution, level and rate; one figure per seed."""

    def __init__(self, found: pl.DataFrame) -> None:
        overall = found.group_by("distribution", "rate", "replication", maintain_order=True).agg(
            pl.lit(OVERALL).alias("queue"), pl.col("jobs", "sum_s", "in_parallel").sum()
        )
        columns = ["distribution", "rate", "replication", "queue", "jobs", "sum_s", "in_parallel"]
        whole = pl.concat([found.select(columns), overall.select(columns)], how="vertical_relaxed")
        self._rows = whole.with_columns(
            time_s=pl.col("sum_s") / pl.col("jobs"), share=100 * pl.col("in_parallel") / pl.col("jobs")
        ).sort("replication")

    def time_s(self, distribution: str, level: str, rate: int) -> Sample:
        return self._sample(distribution, level, rate, "time_s")

    def parallel_percent(self, distribution: str, level: str, rate: int) -> Sample:
        return self._sample(distribution, level, rate, "share")

    def _sample(self, distribution: str, level: str, rate: int, column: str) -> Sample:
        chosen = self._rows.filter(
            (pl.col("distribution") == distribution) & (pl.col("queue") == level) & (pl.col("rate") == rate)
        )
        return chosen[column].to_numpy()


def study(seeds: int, course: Course) -> Findings:
    cases = [
        _case(distribution, rate, seed)
        for seed in range(seeds)
        for distribution in DISTRIBUTIONS
        for rate in RATES
    ]
    sampled = Sampled(run_all(cases, course))
    return Findings(
        name="cs4",
        title="Case study 4: preemptive priority scheduling",
        source="Collins and George 2001, section 5.4",
        method=f"{METHOD} {seeds} seeds; 95 % intervals.",
        claims=_claims(sampled),
        drawings=[*_figure_8(sampled), *_figure_9(sampled), _table_1(sampled)],
        tables={
            "Table 1: share of jobs run in parallel (%)": _table(sampled.parallel_percent),
            "Mean job time (s)": _table(sampled.time_s),
        },
    )


def _case(distribution: str, rate: int, seed: int) -> Case:
    settings = preemptive_settings(distribution, rate)
    return Case({"distribution": distribution, "rate": rate}, settings, "pjs", seed)


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


def _claims(found: Sampled) -> list[Claim]:
    time_s, parallel = found.time_s, found.parallel_percent
    order = [
        interval(time_s(d, lower, r) - time_s(d, upper, r))
        for d in WITH_LEVELS
        for r in RATES
        for upper, lower in (("high", "medium"), ("medium", "low"))
    ]
    rarity = [
        interval(time_s(more, "high", r) - time_s(fewer, "high", r))
        for fewer, more in (("10/10/80", "25/25/50"), ("25/25/50", "50/25/25"))
        for r in RATES
    ]
    ratio = interval(time_s("50/25/25", "high", 32) / time_s("10/10/80", "high", 32))
    rare_s = interval(time_s("10/10/80", "high", 32))
    growth = {d: interval(time_s(d, OVERALL, 32) - time_s(d, OVERALL, 1)) for d in DISTRIBUTIONS}
    falls = [
        interval(time_s(d, level, slow) - time_s(d, level, fast))
        for d in WITH_LEVELS
        for level in LEVELS
        for slow, fast in itertools.pairwise(RATES)
    ]
    penalty = {
        (d, r): interval(100 * (time_s(d, OVERALL, r) / time_s("none", OVERALL, r) - 1))
        for d in WITH_LEVELS
        for r in RATES
    }
    slow_penalty = [
        interval(time_s("10/10/80", OVERALL, r) - time_s(d, OVERALL, r))
        for d in ("25/25/50", "50/25/25")
        for r in RATES[:2]
    ]
    crossing = {r: _advantage(found, r) for r in RATES}
    fewer_parallel = [
        interval(parallel(d, OVERALL, slow) - parallel(d, OVERALL, fast))
        for d in DISTRIBUTIONS
        for slow, fast in itertools.pairwise(RATES)
    ]
    by_level = [interval(parallel(d, "high", r) - parallel(d, "low", r)) for d in WITH_LEVELS for r in RATES]
    faster_fall = [
        interval(
            (parallel(more, "high", 1) - parallel(more, "high", 32))
            - (parallel(fewer, "high", 1) - parallel(fewer, "high", 32))
        )
        for fewer, more in (("10/10/80", "25/25/50"), ("25/25/50", "50/25/25"))
    ]
    return [
        Claim(
            "High-priority jobs are done sooner than medium ones, and these sooner than low ones",
            "Figure 8, all charts",
            "both differences are above 0 for every distribution and rate",
            f"{counted(order)}; least difference {shown(_least(order), 1, 's')}",
            all_positive(order),
        ),
        Claim(
            "The rarer high-priority jobs are, the sooner they are done",
            "Figure 8",
            "high job times grow from 10/10/80 to 25/25/50, and from there to 50/25/25, at every rate",
            f"{counted(rarity)}; least difference {shown(_least(rarity), 1, 's')}",
            all_positive(rarity),
        ),
        Claim(
            "10/10/80 contains the mean time of high-priority jobs to slightly over 100 s",
            "slightly over 100 s (Figure 8a)",
            "at 32 jobs per quantum between 100 and 200 s",
            f"{shown(rare_s, 0, 's')} at 32, {shown(interval(time_s('10/10/80', 'high', 1)), 0, 's')} at 1",
            _within(rare_s, 100.0, 200.0),
        ),
        Claim(
            "With 50/25/25 they take over four times as long at high rates",
            "over 4 times",
            "the ratio to 10/10/80 at 32 jobs per quantum is above 4",
            f"{shown(ratio, 2)} times",
            positive(less(ratio, 4.0)),
        ),
        Claim(
            "Job times generally increase with the rate of arrival",
            "Figures 8 and 9a",
            "the overall mean at 32 per quantum is above that at 1 for every distribution",
            ", ".join(f"{d} {shown(x, 0, 's')}" for d, x in growth.items()),
            all_positive(list(growth.values())),
        ),
        Claim(
            "but not monotonically",
            "Figure 8",
            "the mean time of some priority falls from one rate to the next, for some distribution",
            f"largest fall {shown(max(falls, key=lambda x: x.low), 1, 's')}",
            some_positive(falls),
        ),
        Claim(
            "Preemption with priority generally costs a little in overall performance",
            "Figure 9a",
            "overall time is above that without priority in most cases (distribution and rate)",
            counted(penalty.values()),
            most_positive(list(penalty.values())),
        ),
        Claim(
            "At low rates the penalty is largest for 10/10/80",
            "Figure 9a",
            "at 1 and 2 jobs per quantum, overall time of 10/10/80 is above that of both others",
            ", ".join(f"{d} {shown(penalty[d, r], 1, '%')} at {r}" for r in RATES[:2] for d in WITH_LEVELS),
            all_positive(slow_penalty),
        ),
        Claim(
            "The trend reverses after 8 jobs per quantum: then 10/10/80 is best",
            "8 jobs per quantum",
            "overall time of 10/10/80 is above the mean of the others up to 8, and below it at 16 and 32",
            "difference " + ", ".join(f"{shown(x, 1, 's')} at {r}" for r, x in crossing.items()),
            all_positive([x if r <= 8 else Interval(-x.mean, x.half_width) for r, x in crossing.items()]),
        ),
        Claim(
            "Parallelism decreases as the rate of arrival increases",
            "80 % falling to about 16 % (Table 1, Figure 9b)",
            "the overall share falls from every rate to the next, for every distribution",
            ", ".join(
                f"{d} {shown(interval(parallel(d, OVERALL, 1)), 0)} to "
                f"{shown(interval(parallel(d, OVERALL, 32)), 0, '%')}"
                for d in DISTRIBUTIONS
            ),
            all_positive(fewer_parallel),
        ),
        Claim(
            "Parallelism drops with the priority of the job",
            "Table 1",
            "the share of high jobs is above that of low jobs for every distribution and rate",
            f"{counted(by_level)}; least difference {shown(_least(by_level), 1, 'points')}",
            all_positive(by_level),
        ),
        Claim(
            "It falls faster with the rate for high-priority jobs where these are more frequent",
            "Table 1",
            "the fall from 1 to 32 grows from 10/10/80 to 25/25/50, and from there to 50/25/25",
            "by " + " and ".join(shown(x, 1, "points") for x in faster_fall),
            all_positive(faster_fall),
        ),
    ]


def _advantage(found: Sampled, rate: int) -> Interval:
    """Overall job time of 10/10/80 less the mean of the other two."""
    others = (found.time_s("25/25/50", OVERALL, rate) + found.time_s("50/25/25", OVERALL, rate)) / 2
    return interval(found.time_s("10/10/80", OVERALL, rate) - others)


def _least(found: Iterable[Interval]) -> Interval:
    return min(found, key=lambda x: x.low)


def _within(found: Interval, low: float, high: float) -> Verdict:
    return all_positive([less(found, low), Interval(high - found.mean, found.half_width)])


def _table(sample: Callable[[str, str, int], Sample]) -> pl.DataFrame:
    rows = []
    for d in DISTRIBUTIONS:
        for level in (*(LEVELS if d != "none" else ()), OVERALL):
            values = [round(float(sample(d, level, rate).mean()), 1) for rate in RATES]
            rows.append((d, level, *values))
    return pl.DataFrame(rows, schema=["distribution", "priority", *map(str, RATES)], orient="row")


def _over_rates(
    sample: Callable[[str, str, int], Sample], cases: Iterable[tuple[str, str, str]], title: str, legend: str
) -> Figure:
    """A line for each (name, distribution, level)."""
    points = [
        (float(rate), name, interval(sample(d, level, rate))) for name, d, level in cases for rate in RATES
    ]
    return series_of_means(points, RATE_TITLE, title, legend)


def _table_1(found: Sampled) -> Drawing:
    """The table as a heat map."""
    wide = _table(found.parallel_percent)
    rows = wide.select(
        pl.format("{}, {}", "distribution", "priority")
        .str.replace("none, overall", "no priority")
        .alias("of"),
        pl.all().exclude("distribution", "priority"),
    ).unpivot(index="of", variable_name="rate", value_name="share")
    axes = alt.Chart(rows).encode(
        x=alt.X("rate:O", title=RATE_TITLE, sort=None, axis=alt.Axis(labelAngle=0, orient="top")),
        y=alt.Y("of:N", title=None, sort=None),
    )
    scale = alt.Scale(domain=[0, 100], scheme="blues")
    cells = axes.mark_rect().encode(color=alt.Color("share:Q", scale=scale, title="Jobs in parallel (%)"))
    ink = alt.condition("datum.share > 55", alt.value("white"), alt.value("black"))
    chart = alt.layer(cells, axes.mark_text().encode(text=alt.Text("share:Q", format=".0f"), color=ink))
    return Drawing(
        "table-1", "Table 1: share of jobs run in parallel (%)", chart.properties(width=WIDTH, height=320)
    )


RATE_TITLE = "Mean arrivals per quantum of 10 s (jobs)"


def _figure_8(found: Sampled) -> list[Drawing]:
    drawings = []
    for letter, d in zip("abc", WITH_LEVELS, strict=True):
        chart = _over_rates(
            found.time_s, [(level, d, level) for level in LEVELS], "Mean job time (s)", "Priority"
        )
        title = f"Figure 8{letter}: mean job time by priority, {d}"
        drawings.append(Drawing(f"figure-8{letter}", title, chart))
    return drawings


def _figure_9(found: Sampled) -> list[Drawing]:
    overall = [("no priority" if d == "none" else d, d, OVERALL) for d in DISTRIBUTIONS]
    return [
        Drawing(
            "figure-9a",
            "Figure 9a: mean job time of all jobs by priority distribution",
            _over_rates(found.time_s, overall, "Mean job time (s)", "Distribution"),
        ),
        Drawing(
            "figure-9b",
            "Figure 9b: share of jobs run in parallel by priority distribution",
            _over_rates(found.parallel_percent, overall, "Jobs run in parallel (%)", "Distribution"),
        ),
    ]
