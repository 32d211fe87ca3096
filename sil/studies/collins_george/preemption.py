"""Preemption within bounds: the future work of Collins and George 2001."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from sil.outcome.statistics import Interval, Sample, interval
from sil.report.figures import series_of_means
from sil.studies.collins_george.cs3 import LEVELS
from sil.studies.collins_george.cs4 import RATE_TITLE, preemptive_settings
from sil.studies.collins_george.site_runs import Case, run_all
from sil.studies.findings import Drawing, Findings
from sil.studies.ledger import Claim, all_positive, positive, shown
from sil.studies.run_options import Course

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
    "The fourth case study at 25/25/50, and beside the paper's rule two of its ideas for later: a low job "
    "that was displaced once or three times waits with the medium ones, which are not displaced; and a "
    "high job displaces only if that shortens the sum of the high job times by more than 60 or 300 s for "
    "each run displaced. 500 jobs under PJS at 1 to 16 arrivals per quantum. All policies meet the same "
    "jobs, so differences are paired."
)


def study(seeds: int, course: Course) -> Findings:
    cases = [_case(policy, rate, seed) for seed in range(seeds) for policy in POLICIES for rate in RATES]
    found = run_all(cases, course).sort("replication")
    return Findings(
        name="preemption",
        title="Preemption within bounds",
        source="Collins and George 2001, section 6",
        method=f"{METHOD} {seeds} seeds; 95 % intervals.",
        claims=_claims(found),
        drawings=[_drawing(found, level) for level in LEVELS],
        tables={"Means over all rates": _table(found)},
    )


def _case(policy: str, rate: int, seed: int) -> Case:
    settings = preemptive_settings(DISTRIBUTION, rate) | {"preemption": POLICIES[policy]}
    return Case({"policy": policy, "rate": rate}, settings, "pjs", seed)


def _mean_s(found: pl.DataFrame, policy: str, levels: tuple[str, ...], rate: int) -> Sample:
    """Mean job time of some levels, seed by seed."""
    rows = _rows(found, policy, levels, rate).agg(pl.col("sum_s").sum() / pl.col("jobs").sum())
    return rows.sort("replication")["sum_s"].to_numpy()


def _longest_s(found: pl.DataFrame, policy: str, rate: int) -> Sample:
    """Longest job time of a low job, seed by seed."""
    rows = _rows(found, policy, ("low",), rate).agg(pl.col("longest_s").max())
    return rows.sort("replication")["longest_s"].to_numpy()


def _restarts(found: pl.DataFrame, policy: str, rate: int) -> Sample:
    """How often a low job was begun in vain, in the mean, seed by seed."""
    in_vain = (pl.col("attempts") - pl.col("jobs")).sum() / pl.col("jobs").sum()
    rows = _rows(found, policy, ("low",), rate).agg(in_vain.alias("restarts"))
    return rows.sort("replication")["restarts"].to_numpy()


def _rows(
    found: pl.DataFrame, policy: str, levels: tuple[str, ...], rate: int
) -> pl.dataframe.group_by.GroupBy:
    chosen = (pl.col("policy") == policy) & pl.col("queue").is_in(levels) & (pl.col("rate") == rate)
    return found.filter(chosen).group_by("replication")


def _claims(found: pl.DataFrame) -> list[Claim]:
    shorter = {r: interval(_longest_s(found, PAPER, r) - _longest_s(found, RAISED, r)) for r in RATES}
    price = {
        r: interval(100 * (_mean_s(found, RAISED, ("high",), r) / _mean_s(found, PAPER, ("high",), r) - 1))
        for r in RATES
    }
    fewer = {r: interval(_restarts(found, PAPER, r) - _restarts(found, GAIN, r)) for r in RATES}
    overall = interval(np.mean([_overall_saving(found, r) for r in RATES], axis=0))
    return [
        Claim(
            "Raising the priority of a job after preemptions helps to prevent starvation",
            "an idea of section 6",
            f"the longest low job time is shorter with '{RAISED}' at every rate",
            _listed(shorter, "s"),
            all_positive(list(shorter.values())),
        ),
        Claim(
            "It costs high-priority jobs little",
            "not said",
            f"with '{RAISED}' their mean time grows by less than {LITTLE_PERCENT:g} % at every rate",
            _listed(price, "%"),
            all_positive([Interval(LITTLE_PERCENT - x.mean, x.half_width) for x in price.values()]),
        ),
        Claim(
            "To preempt only for a gain above some threshold reduces unnecessary contention",
            "an idea of section 6",
            f"fewer low jobs are begun in vain with '{GAIN}' at every rate",
            _listed(fewer, "per job", digits=3),
            all_positive(list(fewer.values())),
        ),
        Claim(
            "and overall performance gains by it",
            "not said",
            f"the mean over the rates of what '{GAIN}' saves in overall job time is above 0",
            shown(overall, 1, "%"),
            positive(overall),
        ),
    ]


def _overall_saving(found: pl.DataFrame, rate: int) -> Sample:
    bounded, paper = (_mean_s(found, policy, LEVELS, rate) for policy in (GAIN, PAPER))
    return 100 * (1 - bounded / paper)


def _listed(found: dict[int, Interval], unit: str, digits: int = 1) -> str:
    return ", ".join(f"{shown(x, digits)} at {rate}" for rate, x in found.items()) + f" ({unit})"


def _table(found: pl.DataFrame) -> pl.DataFrame:
    rows = []
    for policy in POLICIES:
        means = [
            round(float(np.mean([_mean_s(found, policy, levels, r) for r in RATES])), 1)
            for levels in (*((level,) for level in LEVELS), LEVELS)
        ]
        longest = round(float(np.mean([_longest_s(found, policy, r) for r in RATES])), 0)
        in_vain = round(float(np.mean([_restarts(found, policy, r) for r in RATES])), 3)
        rows.append((policy, *means, longest, in_vain))
    columns = [
        "policy",
        "high (s)",
        "medium (s)",
        "low (s)",
        "all (s)",
        "longest low (s)",
        "low runs in vain per job",
    ]
    return pl.DataFrame(rows, schema=columns, orient="row")


def _drawing(found: pl.DataFrame, level: str) -> Drawing:
    points = [
        (float(rate), policy, interval(_mean_s(found, policy, (level,), rate)))
        for policy in POLICIES
        for rate in RATES
    ]
    chart = series_of_means(points, RATE_TITLE, "Mean job time (s)", "Preemption", height=220)
    return Drawing(f"{level}-priority", f"Mean time of {level}-priority jobs, {DISTRIBUTION}", chart)
