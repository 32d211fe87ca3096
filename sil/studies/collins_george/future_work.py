"""The future work of Collins and George 2001 (section 6): execution times that vary, bounded preemption."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import polars as pl

from sil.outcome.statistics import Sample, interval, percent_changes
from sil.report.figures import lines
from sil.report.page import Part
from sil.studies.collins_george.cs3 import LEVELS
from sil.studies.collins_george.cs4 import RATE_TITLE, preemptive_settings
from sil.studies.collins_george.site_runs import OVERALL, SiteCase, by_level, run_all
from sil.studies.ledger import SLIGHT_PERCENT, Claim, Findings, Study
from sil.studies.rules import Estimate, GridSamples, above, below, table, text
from sil.workers.runner import Runner

# -- how much do unknown execution times matter? -------------------------------------------------------------

SCHEDULERS = ("olb", "sjs", "pjs")
DRAWN = ("sjs", "pjs", "olb")
"""The schedulers in the order in which each has the same colour as in the case studies."""
VARIATIONS = (0.0, 0.1, 0.3, 0.5, 1.0)
"""Coefficients of variation of the actual run time around its mean."""
SHAPES = ("lognormal", "gamma")
SIZES = (20, 50, 100)
SIZABLE = 0.5
LITTLE_POINTS = 5.0

Setting = tuple[int, str, float]
"""Number of jobs, shape and coefficient of variation."""


def robustness(seeds: int, runner: Runner) -> Findings:
    cases = []
    for seed, n, shape, variation, name in product(range(seeds), SIZES, SHAPES, VARIATIONS, SCHEDULERS):
        times = {"kind": shape, "coefficient_of_variation": variation} if variation else {"kind": "exact"}
        labels: dict[str, str | int | float] = {"n": n, "shape": shape, "variation": variation}
        cases.append(SiteCase(labels, {"workload": {"jobs": n}, "run_times": times}, name, seed))
    found = GridSamples(run_all(cases, runner), "scheduler", "n", "shape", "variation")
    study = Study("robustness", n=SIZES[0], sizable=SIZABLE, little_points=LITTLE_POINTS)
    rows = []
    for n, shape, name in product(SIZES, SHAPES, SCHEDULERS[1:]):
        saved = (float(_savings(found, (n, shape, v), name, "olb").mean()) for v in VARIATIONS)
        rows.append((n, shape, name, *(round(-percent, 1) for percent in saved)))
    changes = table(("jobs", "shape", "scheduler", *map(str, VARIATIONS)), rows)
    drawings = [_totals_of_jobs(found, n) for n in SIZES]
    tables = {"Total job time against OLB (%)": changes}
    return study.findings(_claims_on_variation(found, study), drawings, tables, seeds=seeds)


def _savings(found: GridSamples, of: Setting, name: str, against: str) -> Sample:
    """The saving of one scheduler relative to another, in percent of the other's mean."""
    baseline = found("sum_s", against, *of)
    return percent_changes(baseline - found("sum_s", name, *of), baseline)


def _claims_on_variation(found: GridSamples, study: Study) -> list[Claim]:
    def savings(name: str, against: str, sizes: tuple[int, ...]) -> dict[Setting, Estimate]:
        settings = product(sizes, SHAPES, VARIATIONS)
        return {of: Estimate(_savings(found, of, name, against)) for of in settings}

    n = SIZES[0]
    over_olb, light = savings("sjs", "olb", SIZES), savings("pjs", "sjs", (n,))
    change = {
        (shape, v): Estimate(light[n, shape, v].values - light[n, shape, 0.0].values)
        for shape, v in product(SHAPES, VARIATIONS)
        if 0 < v <= SIZABLE
    }
    worst, least = min(over_olb.items(), key=lambda item: item[1].mean)
    least_light = text(min(light.values(), key=lambda x: x.mean), 1, "%")
    outlasts = ", ".join(f"{shape} {v:g}: by {text(x, 1)}" for (shape, v), x in change.items()) + " points"
    least_over_olb = f"least {text(least, 1, '%')}, at {' '.join(map(str, worst))}"
    return [
        study.claim("independence", over_olb.values(), least_over_olb),
        study.claim("outlasts-variations", (above(x, -LITTLE_POINTS) for x in change.values()), outlasts),
        study.claim("better-whatever-the-variation", light.values(), f"least {least_light}"),
    ]


def _totals_of_jobs(found: GridSamples, n: int) -> Part:
    points = [
        (v, name, interval(found("sum_s", name, n, SHAPES[0], v))) for name, v in product(DRAWN, VARIATIONS)
    ]
    x_title = "Coefficient of variation of run times"
    chart = lines(points, x_title, "Total job time (s)", "Scheduler", height=220)
    title = f"{n} jobs: total job time as run times vary more (lognormal)"
    return Part(title, chart, name=f"variation-{n}-jobs")


# -- bounded preemption --------------------------------------------------------------------------------------

DISTRIBUTION = "25/25/50"
RATES = (1, 2, 4, 8, 16)
PAPER, RAISED, GAIN, OWN = "as in the paper", "raised after 1", "gain of 60 s", "own gain of 60 s"
POLICIES: dict[str, dict[str, Any]] = {
    PAPER: {},
    RAISED: {"raised_after": 1},
    "raised after 3": {"raised_after": 3},
    GAIN: {"least_gain_s": 60.0},
    "gain of 300 s": {"least_gain_s": 300.0},
    OWN: {"least_gain_s": 60.0, "gain": "own"},
    "own gain of 300 s": {"least_gain_s": 300.0, "gain": "own"},
}


def preemption(seeds: int, runner: Runner) -> Findings:
    cases = [
        SiteCase(
            {"policy": policy, "rate": rate},
            preemptive_settings(DISTRIBUTION, rate) | {"preemption": POLICIES[policy]},
            "pjs",
            seed,
        )
        for seed, policy, rate in product(range(seeds), POLICIES, RATES)
    ]
    found = by_level(run_all(cases, runner), "queue", "policy", "rate")
    study = Study("preemption", slight_percent=SLIGHT_PERCENT)
    tables = {"Means over all rates": _means_over_rates(found)}
    drawings = [_times_of_level(found, level) for level in LEVELS]
    return study.findings(_claims_on_preemption(found, study), drawings, tables, seeds=seeds)


def _claims_on_preemption(found: GridSamples, study: Study) -> list[Claim]:
    def both(measure: str, level: str, policy: str) -> list[tuple[Sample, Sample]]:
        """A measure under the paper's policy and under another, at each rate."""
        return [(found(measure, level, PAPER, rate), found(measure, level, policy, rate)) for rate in RATES]

    def listed(cases: list[Estimate], unit: str, digits: int = 1) -> str:
        at = [f"{text(x, digits)} at {rate}" for x, rate in zip(cases, RATES, strict=True)]
        return f"{', '.join(at)} ({unit})"

    shorter = [Estimate(paper_s - raised_s) for paper_s, raised_s in both("longest_s", "low", RAISED)]
    price = [Estimate(100 * (raised_s / paper_s - 1)) for paper_s, raised_s in both("time_s", "high", RAISED)]
    fewer, overall = {}, {}
    for policy in (GAIN, OWN):
        fewer[policy] = [Estimate(paper - gain) for paper, gain in both("in_vain", "low", policy)]
        savings = [100 * (1 - gain_s / paper_s) for paper_s, gain_s in both("time_s", OVERALL, policy)]
        overall[policy] = Estimate(np.mean(savings, axis=0))
    cost = (below(x, SLIGHT_PERCENT) for x in price)
    contention = listed(fewer[GAIN], "per job", digits=3)
    gained = f"{text(overall[GAIN], 1, '%')}; {OWN}: {text(overall[OWN], 1, '%')}"
    return [
        study.claim("starvation", shorter, listed(shorter, "s")),
        study.claim("little-cost", cost, listed(price, "%")),
        study.claim("less-contention", fewer[GAIN], contention, beside={OWN: fewer[OWN]}),
        study.claim("overall-gain", [overall[GAIN]], gained, beside={OWN: [overall[OWN]]}),
    ]


def _means_over_rates(found: GridSamples) -> pl.DataFrame:
    columns = {f"{level} (s)": ("time_s", level, 1) for level in LEVELS}
    columns["all (s)"] = ("time_s", OVERALL, 1)
    columns["longest low (s)"] = ("longest_s", "low", 0)
    columns["low runs in vain per job"] = ("in_vain", "low", 3)
    rows = []
    for policy in POLICIES:
        cells = []
        for measure, level, digits in columns.values():
            over_rates = [found(measure, level, policy, rate) for rate in RATES]
            cells.append(round(float(np.mean(over_rates)), digits))
        rows.append((policy, *cells))
    return table(("policy", *columns), rows)


def _times_of_level(found: GridSamples, level: str) -> Part:
    points = [
        (float(rate), policy, interval(found("time_s", level, policy, rate)))
        for policy, rate in product(POLICIES, RATES)
    ]
    chart = lines(points, RATE_TITLE, "Mean job time (s)", "Preemption", height=220)
    return Part(f"Mean time of {level}-priority jobs, {DISTRIBUTION}", chart, name=f"{level}-priority")
