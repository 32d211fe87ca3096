"""The future work of Hanzich et al. 2006: analytic predictions corrected by their past errors."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import polars as pl

from scheduler.model import JobId
from scheduler.time_shared.prediction.forecast import (
    COVERAGE,
    Circumstances,
    Error,
    ErrorHistory,
    Forecast,
    Hybrid,
    Predictor,
    WithInterval,
    seen_by,
)
from scheduler.time_shared.prediction.policy_aware import PolicyAware
from scheduler.time_shared.problem import SharedNodes
from sil.outcome.statistics import Interval, interval
from sil.report.figures import bars
from sil.report.page import Part
from sil.studies.cisne.experiments import (
    LOADS,
    METHOD,
    METHODS,
    POLICIES,
    PredictionCase,
    ends_s,
    jobs_of,
    run_case,
)
from sil.studies.findings import Findings
from sil.studies.grid_samples import GridSamples, table
from sil.studies.ledger import Claim, all_or_partly_positive, count_of, range_of, text
from sil.workers.runner import Runner

PLAIN, HYBRID = "plain", "hybrid"
CELLS = tuple(product(POLICIES, LOADS, METHODS))
SLACK_POINTS = 10.0

LEARNING = (
    "Errors are learnt from the first half of the seeds, separately for each policy, local load and "
    "method, by kind of job, whether it waits or runs, and the number of unfinished jobs; predictions for "
    "the other half of the seeds are made with and without them."
)


def study(seeds: int, runner: Runner) -> Findings:
    """Learns from half of the seeds and predicts the other half."""
    runner.total = 2 * seeds * len(POLICIES) * len(LOADS)
    past, future = (
        [PredictionCase(p, load, first + k) for k in range(seeds) for p in POLICIES for load in LOADS]
        for first in (0, seeds)
    )
    errors: dict[tuple[str, float, str], list[Error]] = {cell: [] for cell in CELLS}
    for case, found in zip(past, runner.map(_errors, past), strict=True):
        for method, of_method in found.items():
            errors[case.policy, case.load, method] += of_method
    histories = {cell: ErrorHistory(of_cell) for cell, of_cell in errors.items()}
    learnt = [
        (case, {method: histories[case.policy, case.load, method] for method in METHODS}) for case in future
    ]
    frame = pl.DataFrame([row for of_case in runner.map(_predicted, learnt) for row in of_case])
    deviations = GridSamples(frame, "policy", "load", "method", "kind")
    shares = GridSamples(frame.drop_nulls("covered"), "policy", "load", "method", "kind")
    covered = {cell: interval(shares("covered", *cell, PLAIN)) for cell in CELLS}
    title = f"Deviation (%), and share of jobs that end in their {COVERAGE:.0%} interval (%)"
    return Findings(
        title="CISNE: predictions that learn from their errors",
        source="Hanzich et al. 2006, section 5 (future work)",
        method=f"{METHOD} {LEARNING} {seeds} seeds in each half; 95 % intervals.",
        claims=_claims(deviations, list(covered.values())),
        drawings=[_drawing(deviations, method) for method in METHODS],
        tables={title: _table(deviations, covered)},
    )


class _Noting:
    """A predictor that records the circumstances of each prediction."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self.seen: list[tuple[float, Forecast, Circumstances]] = []

    def predict(self, now_s: float, shared: SharedNodes) -> list[Forecast]:
        made = seen_by(self._predictor, now_s, shared)
        self.seen += [(now_s, *one) for one in made]
        return [forecast for forecast, _ in made]


def _aware(case: PredictionCase, method: str) -> PolicyAware:
    return PolicyAware(case.composition.scheduler(), *METHODS[method])


def _errors(case: PredictionCase) -> dict[str, list[Error]]:
    noting = {method: _Noting(_aware(case, method)) for method in METHODS}
    ended_s = ends_s(run_case(case, dict(noting)))
    return {
        method: [
            Error(circumstances, (ended_s[forecast.job] - made_s) / (forecast.end_s - made_s))
            for made_s, forecast, circumstances in of_method.seen
            if forecast.end_s > made_s
        ]
        for method, of_method in noting.items()
    }


def _predicted(learnt: tuple[PredictionCase, dict[str, ErrorHistory]]) -> list[dict[str, Any]]:
    """Of a case, with the error history of each method."""
    case, histories = learnt
    predictors: dict[str, Predictor] = {}
    for method, errors in histories.items():
        predictors[f"{PLAIN} {method}"] = WithInterval(_aware(case, method), errors)
        predictors[f"{HYBRID} {method}"] = Hybrid(_aware(case, method), errors)
    done = run_case(case, predictors)
    ended_s = ends_s(done)
    arrived_s = {job.id: job.arrival_s for job in jobs_of(case.replication)}
    first: dict[str, dict[JobId, Forecast]] = {name: {} for name in predictors}
    for prediction in done.predictions:
        first[prediction.predictor].setdefault(prediction.forecast.job, prediction.forecast)
    rows = []
    for name, forecasts in first.items():
        kind, method = name.split()
        deviation = [
            abs(made.end_s - ended_s[job]) / (ended_s[job] - arrived_s[job])
            for job, made in forecasts.items()
        ]
        covered = [
            made.low_s <= ended_s[job] <= made.high_s
            for job, made in forecasts.items()
            if made.low_s is not None and made.high_s is not None
        ]
        row = {"policy": case.policy, "load": case.load, "replication": case.replication}
        row |= {"kind": kind, "method": method, "deviation": 100 * float(np.mean(deviation))}
        rows.append(row | {"covered": 100 * float(np.mean(covered)) if covered else None})
    return rows


def _claims(deviations: GridSamples, covered: list[Interval]) -> list[Claim]:
    gains = [
        interval(deviations("deviation", *cell, PLAIN) - deviations("deviation", *cell, HYBRID))
        for cell in CELLS
    ]
    near = [Interval(SLACK_POINTS - abs(x.mean - 100 * COVERAGE), x.half_width) for x in covered]
    means = [x.mean for x in covered]
    return [
        Claim(
            "A method that goes by history, too, becomes more and more accurate over time",
            "an idea of section 5",
            "on seeds that it did not learn from it deviates less than the plain one, in every cell (policy, "
            "load, method); partly: in most",
            f"{count_of(gains)}; gain {range_of(gains, 'points')}",
            all_or_partly_positive(gains),
        ),
        Claim(
            f"Intervals with a nominal coverage of {COVERAGE:.0%} of the jobs cover about that share",
            "not said",
            f"on those seeds, the share is within {SLACK_POINTS:g} points of it, in every cell; "
            "partly: in most",
            f"{count_of(near)}; from {min(means):.0f} to {max(means):.0f} % of jobs",
            all_or_partly_positive(near),
        ),
    ]


def _table(deviations: GridSamples, covered: dict[tuple[str, float, str], Interval]) -> pl.DataFrame:
    rows = []
    for policy, load, method in CELLS:
        cell = (policy, load, method)
        both = (text(interval(deviations("deviation", *cell, kind))) for kind in (PLAIN, HYBRID))
        rows.append((policy, f"{load:.0%}", method, *both, text(covered[cell], 0)))
    return table(("policy", "local load", "method", "plain", "hybrid", "in the interval"), rows)


def _drawing(deviations: GridSamples, method: str) -> Part:
    rows = [
        (f"{policy}, {load:.0%}", kind, deviations.mean("deviation", policy, load, method, kind))
        for policy, load, kind in product(POLICIES, LOADS, (PLAIN, HYBRID))
    ]
    chart = bars(rows, "Policy, local load", "Mean deviation (%)", "Predictor")
    title = f"{method}-{method}: deviation with and without a correction by history"
    return Part(title, chart, name=f"hybrid-{method.lower()}")
