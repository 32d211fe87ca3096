"""Bounded preemption: the future work of Collins and George 2001."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import polars as pl

from sil.outcome.statistics import Sample, interval
from sil.report.figures import lines
from sil.report.page import Part
from sil.studies.collins_george.cs3 import LEVELS
from sil.studies.collins_george.cs4 import RATE_TITLE, preemptive_settings
from sil.studies.collins_george.site_runs import OVERALL, SiteCase, by_level, run_all
from sil.studies.findings import Findings
from sil.studies.grid_samples import GridSamples, table
from sil.studies.ledger import SLIGHT_PERCENT, Claim, statements
from sil.studies.rules import Estimate, all_positive, below, text
from sil.workers.runner import Runner

DISTRIBUTION = "25/25/50"
RATES = (1, 2, 4, 8, 16)
POLICIES: dict[str, dict[str, Any]] = {
    "as in the paper": {},
    "raised after 1": {"raised_after": 1},
    "raised after 3": {"raised_after": 3},
    "gain of 60 s": {"least_gain_s": 60.0},
    "gain of 300 s": {"least_gain_s": 300.0},
    "own gain of 60 s": {"least_gain_s": 60.0, "gain": "own"},
    "own gain of 300 s": {"least_gain_s": 300.0, "gain": "own"},
}
PAPER, RAISED, GAIN, OWN = "as in the paper", "raised after 1", "gain of 60 s", "own gain of 60 s"

METHOD = (
    "The fourth case study at 25/25/50 with the paper's rule and two of its ideas for future work: a low "
    "job of which one or three started runs were displaced waits with the medium ones, which are not "
    "displaced; and a high job displaces others only for a gain of more than 60 or 300 s for each displaced "
    "run. The gain is what the high job times are shorter, less by how much the displaced jobs are expected "
    "to "
    "end later; the own gain counts the high jobs only. 500 jobs under PJS at 1 to 16 arrivals per quantum. "
    "Common random numbers: "
    "all policies see the same jobs, so differences are paired."
)


STATED = statements("preemption", slight_percent=SLIGHT_PERCENT)


def study(seeds: int, runner: Runner) -> Findings:
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
    return Findings(
        title="Preemption within bounds",
        source="Collins and George 2001, section 6",
        method=f"{METHOD} {seeds} seeds; 95 % intervals.",
        claims=_claims(found),
        drawings=[_drawing(found, level) for level in LEVELS],
        tables={"Means over all rates": _table(found)},
    )


def _claims(found: GridSamples) -> list[Claim]:
    def both(measure: str, level: str, policy: str) -> list[tuple[Sample, Sample]]:
        """A measure under the paper's policy and under another, at each rate."""
        return [(found(measure, level, PAPER, rate), found(measure, level, policy, rate)) for rate in RATES]

    shorter = [Estimate(paper_s - raised_s) for paper_s, raised_s in both("longest_s", "low", RAISED)]
    price = [Estimate(100 * (raised_s / paper_s - 1)) for paper_s, raised_s in both("time_s", "high", RAISED)]
    fewer = {
        policy: [Estimate(paper - gain) for paper, gain in both("in_vain", "low", policy)]
        for policy in (GAIN, OWN)
    }
    savings = {
        policy: [100 * (1 - gain_s / paper_s) for paper_s, gain_s in both("time_s", OVERALL, policy)]
        for policy in (GAIN, OWN)
    }
    overall = {policy: Estimate(np.mean(of_rates, axis=0)) for policy, of_rates in savings.items()}
    return [
        Claim(
            STATED["starvation"],
            _listed(shorter, "s"),
            all_positive(shorter, "s"),
        ),
        Claim(
            STATED["little-cost"],
            _listed(price, "%"),
            all_positive((below(x, SLIGHT_PERCENT) for x in price), "points"),
        ),
        Claim(
            STATED["less-contention"],
            _listed(fewer[GAIN], "per job", digits=3),
            all_positive(fewer[GAIN], "per job"),
            beside={OWN: all_positive(fewer[OWN], "per job")},
        ),
        Claim(
            STATED["overall-gain"],
            f"{text(overall[GAIN], 1, '%')}; {OWN}: {text(overall[OWN], 1, '%')}",
            all_positive([overall[GAIN]], "points"),
            beside={OWN: all_positive([overall[OWN]], "points")},
        ),
    ]


def _listed(found: list[Estimate], unit: str, digits: int = 1) -> str:
    at = [f"{text(x, digits)} at {rate}" for x, rate in zip(found, RATES, strict=True)]
    return f"{', '.join(at)} ({unit})"


def _table(found: GridSamples) -> pl.DataFrame:
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


def _drawing(found: GridSamples, level: str) -> Part:
    points = [
        (float(rate), policy, interval(found("time_s", level, policy, rate)))
        for policy, rate in product(POLICIES, RATES)
    ]
    chart = lines(points, RATE_TITLE, "Mean job time (s)", "Preemption", height=220)
    return Part(f"Mean time of {level}-priority jobs, {DISTRIBUTION}", chart, name=f"{level}-priority")
