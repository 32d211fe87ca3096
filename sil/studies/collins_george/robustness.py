"""How much do unknown execution times matter? The future work of Collins and George 2001."""

from __future__ import annotations

from itertools import product

import polars as pl

from sil.outcome.statistics import Sample, interval, percent_changes
from sil.report.figures import lines
from sil.report.page import Part
from sil.studies.collins_george.site_runs import SiteCase, run_all
from sil.studies.findings import Findings
from sil.studies.grid_samples import GridSamples, table
from sil.studies.ledger import Claim, statements
from sil.studies.rules import Estimate, above, all_positive, text
from sil.workers.runner import Runner

SCHEDULERS = ("olb", "sjs", "pjs")
DRAWN = ("sjs", "pjs", "olb")
"""In this order, a scheduler has the same colour as in the case studies."""
VARIATIONS = (0.0, 0.1, 0.3, 0.5, 1.0)
"""Coefficients of variation of the actual run time around its mean."""
SHAPES = ("lognormal", "gamma")
SIZES = (20, 50, 100)
SIZABLE = 0.5
LITTLE_POINTS = 5.0

METHOD = (
    "20, 50 and 100 jobs of random classes, all submitted at time 0. The schedulers know the mean time of "
    "each job on each resource; the actual run time is drawn from a lognormal or gamma distribution with "
    "that mean and a coefficient of variation from 0 to 1. Common random numbers: the quantile of a job's "
    "run time is the same on every resource and under every scheduler, so differences are paired."
)


def study(seeds: int, runner: Runner) -> Findings:
    cases = [_case(*of) for of in product(range(seeds), SIZES, SHAPES, VARIATIONS, SCHEDULERS)]
    found = GridSamples(run_all(cases, runner), "scheduler", "n", "shape", "variation")
    return Findings(
        title="Execution times as distributions",
        source="Collins and George 2001, section 6; after Armstrong, Hensgen and Kidd 1998",
        method=f"{METHOD} {seeds} seeds; 95 % intervals.",
        claims=_claims(found),
        drawings=[_drawing(found, n) for n in SIZES],
        tables={"Total job time against OLB (%)": _table(found)},
    )


def _case(seed: int, n: int, shape: str, variation: float, scheduler: str) -> SiteCase:
    times = {"kind": shape, "coefficient_of_variation": variation} if variation else {"kind": "exact"}
    labels: dict[str, str | int | float] = {"n": n, "shape": shape, "variation": variation}
    return SiteCase(labels, {"workload": {"jobs": n}, "run_times": times}, scheduler, seed)


Setting = tuple[int, str, float]
"""Number of jobs, shape and coefficient of variation."""


def _savings(found: GridSamples, of: Setting, name: str, against: str) -> Sample:
    """The saving of one scheduler relative to another, in percent of the other's mean."""
    baseline = found("sum_s", against, *of)
    return percent_changes(baseline - found("sum_s", name, *of), baseline)


def _claims(found: GridSamples) -> list[Claim]:
    def savings(name: str, against: str, sizes: tuple[int, ...]) -> dict[Setting, Estimate]:
        settings = product(sizes, SHAPES, VARIATIONS)
        return {of: Estimate(_savings(found, of, name, against)) for of in settings}

    n = SIZES[0]
    over_olb = savings("sjs", "olb", SIZES)
    light = savings("pjs", "sjs", (n,))
    change = {
        (shape, v): Estimate(
            _savings(found, (n, shape, v), "pjs", "sjs") - _savings(found, (n, shape, 0.0), "pjs", "sjs")
        )
        for shape, v in product(SHAPES, VARIATIONS)
        if 0 < v <= SIZABLE
    }
    stated = statements("robustness", n=n, sizable=SIZABLE, little_points=LITTLE_POINTS)
    worst, least = min(over_olb.items(), key=lambda item: item[1].mean)
    return [
        Claim(
            stated["independence"],
            f"least {text(least, 1, '%')}, at {' '.join(map(str, worst))}",
            all_positive(over_olb.values(), "points"),
        ),
        Claim(
            stated["outlasts-variations"],
            ", ".join(f"{shape} {v:g}: by {text(x, 1)}" for (shape, v), x in change.items()) + " points",
            all_positive((above(x, -LITTLE_POINTS) for x in change.values()), "points"),
        ),
        Claim(
            stated["better-whatever-the-variation"],
            f"least {text(min(light.values(), key=lambda x: x.mean), 1, '%')}",
            all_positive(light.values(), "points"),
        ),
    ]


def _table(found: GridSamples) -> pl.DataFrame:
    rows = []
    for n, shape, name in product(SIZES, SHAPES, SCHEDULERS[1:]):
        saved = (float(_savings(found, (n, shape, v), name, "olb").mean()) for v in VARIATIONS)
        rows.append((n, shape, name, *(round(-percent, 1) for percent in saved)))
    return table(("jobs", "shape", "scheduler", *map(str, VARIATIONS)), rows)


def _drawing(found: GridSamples, n: int) -> Part:
    points = [
        (v, name, interval(found("sum_s", name, n, SHAPES[0], v))) for name, v in product(DRAWN, VARIATIONS)
    ]
    x_title = "Coefficient of variation of run times"
    chart = lines(points, x_title, "Total job time (s)", "Scheduler", height=220)
    title = f"{n} jobs: total job time as run times vary more (lognormal)"
    return Part(title, chart, name=f"variation-{n}-jobs")
