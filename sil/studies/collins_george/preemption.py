"""Bounded preemption: the future work of Collins and George 2001."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import polars as pl

from sil.outcome.statistics import Interval, Sample, interval
from sil.report.figures import lines
from sil.studies.collins_george.cs3 import LEVELS
from sil.studies.collins_george.cs4 import RATE_TITLE, preemptive_settings
from sil.studies.collins_george.site_runs import Case, run_all
from sil.studies.findings import Drawing, Findings, sample, table
from sil.studies.ledger import Claim, all_positive, below, positive, shown
from sil.workers.runner import Runner

DISTRIBUTION = "25/25/50"
RATES = (1, 2, 4, 8, 16)
POLICIES: dict[str, dict[str, Any]] = {
    "as in the paper": {},
    "raised after 1": {"raised_after": 1},
    "raised after 3": {"raised_after": 3},
    "gain of 60 s": {"least_gain_s": 60.0},
    "gain of 300 s": {"least_gain_s": 300.0},
}
PAPER, RAISED, GAIN = "as in the paper", "raised after 1", "gain of 60 s"
LITTLE_PERCENT = 10.0

METHOD = (
    "The fourth case study at 25/25/50 with the paper's rule and two of its ideas for future work: a low "
    "job that was displaced once or three times waits with the medium ones, which are not displaced; and a "
    "high job displaces others only if that shortens the sum of the high job times by more than 60 or 300 "
    "s for each displaced run. 500 jobs under PJS at 1 to 16 arrivals per quantum. Common random numbers: "
    "all policies see the same jobs, so differences are paired."
)


def study(seeds: int, runner: Runner) -> Findings:
    cases = [
        Case(
            {"policy": policy, "rate": rate},
            preemptive_settings(DISTRIBUTION, rate) | {"preemption": POLICIES[policy]},
            "pjs",
            seed,
        )
        for seed, policy, rate in product(range(seeds), POLICIES, RATES)
    ]
    found = run_all(cases, runner)
    return Findings(
        name="preemption",
        title="Preemption within bounds",
        source="Collins and George 2001, section 6",
        method=f"{METHOD} {seeds} seeds; 95 % intervals.",
        claims=_claims(found),
        drawings=[_drawing(found, level) for level in LEVELS],
        tables={"Means over all rates": _table(found)},
    )


MEAN_S = pl.col("sum_s").sum() / pl.col("jobs").sum()
LONGEST_S = pl.col("longest_s").max()
RESTARTS = (pl.col("attempts") - pl.col("jobs")).sum() / pl.col("jobs").sum()
"""Runs in vain per job."""


def _sample(found: pl.DataFrame, figure: pl.Expr, levels: tuple[str, ...], policy: str, rate: int) -> Sample:
    """A figure of all jobs of some levels, one value per replication."""
    rows = found.filter(pl.col("queue").is_in(levels), policy=policy, rate=rate)
    return sample(rows.group_by("replication").agg(figure.alias("figure")), "figure")


def _claims(found: pl.DataFrame) -> list[Claim]:
    def of(figure: pl.Expr, levels: tuple[str, ...], policy: str) -> dict[int, Sample]:
        return {rate: _sample(found, figure, levels, policy, rate) for rate in RATES}

    longest_s, restarts = of(LONGEST_S, ("low",), PAPER), of(RESTARTS, ("low",), PAPER)
    high_s, all_s = of(MEAN_S, ("high",), PAPER), of(MEAN_S, LEVELS, PAPER)
    shorter = {r: interval(longest_s[r] - x) for r, x in of(LONGEST_S, ("low",), RAISED).items()}
    price = {r: interval(100 * (x / high_s[r] - 1)) for r, x in of(MEAN_S, ("high",), RAISED).items()}
    fewer = {r: interval(restarts[r] - x) for r, x in of(RESTARTS, ("low",), GAIN).items()}
    savings = [100 * (1 - x / all_s[r]) for r, x in of(MEAN_S, LEVELS, GAIN).items()]
    overall = interval(np.mean(savings, axis=0))
    return [
        Claim(
            "Raising the priority of a job after preemptions helps to prevent starvation",
            "an idea of section 6",
            f"the longest low job time is shorter with '{RAISED}' at every rate",
            _listed(shorter, "s"),
            all_positive(shorter.values()),
        ),
        Claim(
            "It costs high-priority jobs little",
            "not said",
            f"with '{RAISED}' their mean time grows by less than {LITTLE_PERCENT:g} % at every rate",
            _listed(price, "%"),
            all_positive(below(x, LITTLE_PERCENT) for x in price.values()),
        ),
        Claim(
            "To preempt only for a gain above some threshold reduces unnecessary contention",
            "an idea of section 6",
            f"fewer low jobs are started in vain with '{GAIN}' at every rate",
            _listed(fewer, "per job", digits=3),
            all_positive(fewer.values()),
        ),
        Claim(
            "and overall performance gains by it",
            "not said",
            f"the mean over the rates of what '{GAIN}' saves in overall job time is above 0",
            shown(overall, 1, "%"),
            positive(overall),
        ),
    ]


def _listed(found: dict[int, Interval], unit: str, digits: int = 1) -> str:
    return ", ".join(f"{shown(x, digits)} at {rate}" for rate, x in found.items()) + f" ({unit})"


def _table(found: pl.DataFrame) -> pl.DataFrame:
    columns: dict[str, tuple[pl.Expr, tuple[str, ...], int]] = {
        "high (s)": (MEAN_S, ("high",), 1),
        "medium (s)": (MEAN_S, ("medium",), 1),
        "low (s)": (MEAN_S, ("low",), 1),
        "all (s)": (MEAN_S, LEVELS, 1),
        "longest low (s)": (LONGEST_S, ("low",), 0),
        "low runs in vain per job": (RESTARTS, ("low",), 3),
    }
    rows = [
        (
            policy,
            *(
                round(float(np.mean([_sample(found, figure, levels, policy, r) for r in RATES])), digits)
                for figure, levels, digits in columns.values()
            ),
        )
        for policy in POLICIES
    ]
    return table(("policy", *columns), rows)


def _drawing(found: pl.DataFrame, level: str) -> Drawing:
    points = [
        (float(rate), policy, interval(_sample(found, MEAN_S, (level,), policy, rate)))
        for policy, rate in product(POLICIES, RATES)
    ]
    chart = lines(points, RATE_TITLE, "Mean job time (s)", "Preemption", height=220)
    return Drawing(f"{level}-priority", f"Mean time of {level}-priority jobs, {DISTRIBUTION}", chart)
