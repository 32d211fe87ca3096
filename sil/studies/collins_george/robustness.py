"""How much does it matter that execution times are not known? The future work of Collins and George 2001."""

from __future__ import annotations

import polars as pl

from sil.outcome.statistics import Interval, Sample, interval
from sil.report.figures import series_of_means
from sil.studies.collins_george.site_runs import Case, run_all
from sil.studies.findings import Drawing, Findings
from sil.studies.ledger import Claim, all_positive, less, shown
from sil.studies.run_options import Course

SCHEDULERS = ("olb", "sjs", "pjs")
VARIATIONS = (0.0, 0.1, 0.3, 0.5, 1.0)
"""Coefficients of variation of the true time around what is expected."""
SHAPES = ("lognormal", "gamma")
SIZES = (20, 50, 100)
SIZABLE = 0.5
LITTLE_POINTS = 5.0

METHOD = (
    "20, 50 and 100 jobs, all there at time 0, of random classes. The schedulers know the mean time of "
    "each job on each resource; the true time is drawn around it, lognormal or gamma, with coefficients "
    "of variation from 0 to 1. The luck of a job is the same wherever and under whichever scheduler it "
    "runs, so differences are paired."
)


def study(seeds: int, course: Course) -> Findings:
    cases = [
        _case(n, shape, variation, name, seed)
        for seed in range(seeds)
        for n in SIZES
        for shape in SHAPES
        for variation in VARIATIONS
        for name in SCHEDULERS
    ]
    found = run_all(cases, course).sort("replication")
    return Findings(
        name="robustness",
        title="Execution times as distributions",
        source="Collins and George 2001, section 6; after Armstrong, Hensgen and Kidd 1998",
        method=f"{METHOD} {seeds} seeds; 95 % intervals.",
        claims=_claims(found),
        drawings=_drawings(found),
        tables={"Total job time against OLB (%)": _table(found)},
    )


def _case(n: int, shape: str, variation: float, scheduler: str, seed: int) -> Case:
    times = {"kind": shape, "coefficient_of_variation": variation} if variation else {"kind": "exact"}
    labels: dict[str, str | int | float] = {"n": n, "shape": shape, "variation": variation}
    return Case(labels, {"workload": {"jobs": n}, "run_times": times}, scheduler, seed)


def _sum_s(found: pl.DataFrame, n: int, shape: str, variation: float, scheduler: str) -> Sample:
    chosen = found.filter(
        (pl.col("n") == n)
        & (pl.col("shape") == shape)
        & (pl.col("variation") == variation)
        & (pl.col("scheduler") == scheduler)
    )
    return chosen["sum_s"].to_numpy()


def _savings(found: pl.DataFrame, n: int, shape: str, variation: float, name: str, against: str) -> Sample:
    """What one scheduler saves against another, in percent, seed by seed."""
    of, other = (_sum_s(found, n, shape, variation, scheduler) for scheduler in (name, against))
    return 100 * (1 - of / other)


def _saving(found: pl.DataFrame, n: int, shape: str, variation: float, name: str, against: str) -> Interval:
    return interval(_savings(found, n, shape, variation, name, against))


def _claims(found: pl.DataFrame) -> list[Claim]:
    def savings(name: str, against: str, n: int | None = None) -> dict[tuple[int, str, float], Interval]:
        sizes = SIZES if n is None else (n,)
        return {
            (size, shape, v): _saving(found, size, shape, v, name, against)
            for size in sizes
            for shape in SHAPES
            for v in VARIATIONS
        }

    over_olb = savings("sjs", "olb")
    light = savings("pjs", "sjs", SIZES[0])
    change = {
        (shape, v): interval(
            _savings(found, SIZES[0], shape, v, "pjs", "sjs")
            - _savings(found, SIZES[0], shape, 0.0, "pjs", "sjs")
        )
        for shape in SHAPES
        for v in VARIATIONS
        if 0 < v <= SIZABLE
    }
    worst = min(over_olb.items(), key=lambda item: item[1].mean)
    return [
        Claim(
            "The relative performance of mapping algorithms does not depend on how run times vary",
            "title of Armstrong et al.",
            "SJS is better than OLB at every number of jobs, distribution and variation",
            f"least {shown(worst[1], 1, '%')}, at {' '.join(map(str, worst[0]))}",
            all_positive(list(over_olb.values())),
        ),
        Claim(
            f"What PJS saves under a light load ({SIZES[0]} jobs) outlasts sizable variations",
            "future work",
            f"up to a variation of {SIZABLE:g} it saves at most {LITTLE_POINTS:g} points less than without",
            ", ".join(f"{shape} {v:g}: by {shown(x, 1)}" for (shape, v), x in change.items()) + " points",
            all_positive([less(x, -LITTLE_POINTS) for x in change.values()]),
        ),
        Claim(
            f"PJS is better than SJS under a light load ({SIZES[0]} jobs) whatever the variation",
            "future work",
            "its saving is above 0 for both distributions and every variation",
            f"least {shown(min(light.values(), key=lambda x: x.mean), 1, '%')}",
            all_positive(list(light.values())),
        ),
    ]


def _table(found: pl.DataFrame) -> pl.DataFrame:
    rows = [
        (n, shape, name, *(round(-_saving(found, n, shape, v, name, "olb").mean, 1) for v in VARIATIONS))
        for n in SIZES
        for shape in SHAPES
        for name in SCHEDULERS[1:]
    ]
    return pl.DataFrame(rows, schema=["jobs", "shape", "scheduler", *map(str, VARIATIONS)], orient="row")


def _drawings(found: pl.DataFrame) -> list[Drawing]:
    drawings = []
    for n in SIZES:
        points = [
            (v, name, interval(_sum_s(found, n, SHAPES[0], v, name)))
            for name in SCHEDULERS
            for v in VARIATIONS
        ]
        x_title = "Coefficient of variation of run times"
        chart = series_of_means(points, x_title, "Total job time (s)", "Scheduler", height=220)
        title = f"{n} jobs: total job time as run times vary more (lognormal)"
        drawings.append(Drawing(f"variation-{n}-jobs", title, chart))
    return drawings
