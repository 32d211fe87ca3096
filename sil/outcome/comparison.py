"""The comparison of every scheduler with the baseline, the first one, at every point; prediction errors."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from sil.outcome.metrics import METRICS, OF_SOME_SITES, faults, why_absent
from sil.outcome.paired import Paired, why_no_interval
from sil.outcome.refused_and_failed import (
    crash_sentences,
    failure_sentences,
    monitor_notes,
    refusal_sentences,
)
from sil.outcome.statistics import CONFIDENCE, Interval, Sample, interval
from sil.trace.facts import RUN, RunDescription
from sil.world.guard.faults import fault_sentence


@dataclass(frozen=True, slots=True)
class Cell:
    """One metric of one scheduler at one point, and its paired difference to the baseline; `not_settled` says
    why the difference has no interval. A difference and its percentage exclude 0 both or neither."""

    value: Interval
    difference: Interval | None = None
    change_percent: Interval | None = None
    not_settled: str = ""

    @classmethod
    def of(
        cls,
        values: Sample,
        baseline: Sample | None,
        confidence: float = CONFIDENCE,
        unit: str = "replication",
    ) -> Cell:
        """Of the values of independent blocks, which the `unit` names, and the baseline's of the same blocks;
        None for the baseline itself, or where it has no values."""
        value = interval(values, confidence)
        if baseline is None:
            return cls(value)
        paired = Paired(values, baseline, confidence)
        return cls(value, paired.difference, paired.percent, why_no_interval(paired.differences, unit))

    def as_dict(self) -> dict[str, Any]:
        """What is known of it."""
        intervals = {
            "value": self.value,
            "difference": self.difference,
            "change_percent": self.change_percent,
        }
        found = {name: each.as_dict() for name, each in intervals.items() if each is not None}
        return found | ({"not_settled": self.not_settled} if self.not_settled else {})


@dataclass(frozen=True, slots=True)
class Fault:
    """The first fault of a scheduler, which ended its run at every point after it."""

    scheduler: str
    point: int
    replication: int
    rule: str
    job: int | None
    time_s: float | None
    message: str

    def __str__(self) -> str:
        return fault_sentence(self.scheduler, self.rule, self.job, self.time_s, self.message)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Of one predictor under one scheduler at one point, as means over replications.

    `deviation` is the mean of |P - R| / R in percent, `bias` the signed one, `over` the share of predictions
    that were too long; all of the first prediction for each job, `deviation_of_all` of all predictions.
    `coverage` is the share (%) of first predictions whose interval contains the real turnaround. Each is None
    without predictions. `never` is the number of predictions, over all replications, that the job would not
    end; they count in none of the others.
    """

    point: int
    scheduler: str
    predictor: str
    deviation: Interval | None
    bias: Interval | None
    over: Interval | None
    deviation_of_all: Interval | None
    coverage: Interval | None
    n_predictions: int
    never: int

    def as_dict(self) -> dict[str, Any]:
        errors = {name: getattr(self, name) for name in ERRORS}
        return {
            **{name: getattr(self, name) for name in ("point", "scheduler", "predictor")},
            "predictions": self.n_predictions,
            "never": self.never,
            **{name: None if found is None else found.as_dict() for name, found in errors.items()},
        }


ERRORS = ("deviation", "bias", "over", "deviation_of_all", "coverage")
"""The intervals of an Accuracy."""


class Comparison:
    """The results of one experiment."""

    def __init__(
        self,
        description: RunDescription,
        facts: pl.DataFrame,
        metrics: pl.DataFrame,
        scores: pl.DataFrame,
    ) -> None:
        self.description = description
        self.schedulers = description.schedulers
        self.baseline = description.schedulers[0]
        first_faults = faults(facts).unique("scheduler", keep="first", maintain_order=True)
        self.faults = [Fault(**row) for row in first_faults.iter_rows(named=True)]
        self.refusals = refusal_sentences(facts)
        """A sentence for each scheduler under which jobs were refused."""
        self.failures = failure_sentences(facts)
        """A sentence for each scheduler under which jobs failed."""
        self.notes = [*monitor_notes(facts), *crash_sentences(facts)]
        """Sentences on problems of monitors, and of managers that crash or do not reach machines."""
        self.metrics = tuple(
            m for m in METRICS if m.key not in OF_SOME_SITES or metrics[m.key].null_count() < len(metrics)
        )
        """The metrics that apply to these runs."""
        self.absent = {m.key: why for m, why in why_absent(description) if m not in self.metrics}
        """Metrics that do not apply, and why."""
        self.scores = scores
        """Predicted and real turnaround, as from `score_predictions`."""
        self.accuracies = accuracies(scores)
        self._of_runs = metrics.sort("replication").partition_by(
            "point", "scheduler", as_dict=True, maintain_order=True
        )
        self._of_no_run = metrics.clear()

    def cell(self, point: int, scheduler: str, key: str) -> Cell | None:
        """None if a fault ended some replications of the scheduler, or the metric is unknown."""
        values = self._values(point, scheduler, key)
        if values is None:
            return None
        is_baseline = scheduler == self.baseline
        return Cell.of(values, None if is_baseline else self._values(point, self.baseline, key))

    def as_dict(self) -> dict[str, Any]:
        """The content of summary.json."""
        of_description = ("experiment", "site", "version", "seed", "replications")
        return {
            **{key: getattr(self.description, key) for key in of_description},
            "confidence": CONFIDENCE,
            "bounded_slowdown_threshold_s": self.description.bounded_slowdown_threshold_s,
            "baseline": self.baseline,
            "units": {m.key: m.unit for m in self.metrics},
            "absent": self.absent,
            "points": [
                {
                    "settings": settings,
                    "schedulers": {
                        scheduler: {m.key: self._cell_as_dict(point, scheduler, m.key) for m in self.metrics}
                        for scheduler in self.schedulers
                    },
                }
                for point, settings in enumerate(self.description.points)
            ],
            "faults": [asdict(fault) for fault in self.faults],
            "refusals": self.refusals,
            "failures": self.failures,
            "notes": self.notes,
            "predictions": [accuracy.as_dict() for accuracy in self.accuracies],
        }

    def _cell_as_dict(self, point: int, scheduler: str, key: str) -> dict[str, Any] | None:
        cell = self.cell(point, scheduler, key)
        return None if cell is None else cell.as_dict()

    def _values(self, point: int, scheduler: str, key: str) -> Sample | None:
        """The metric by replication; None unless every replication has it."""
        column = self._of_runs.get((point, scheduler), self._of_no_run)[key]
        if len(column) < self.description.replications or column.null_count():
            return None
        return column.to_numpy().astype(np.float64)


def score_predictions(predictions: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """The predictions of jobs that ended, in order of time: with `predicted_s` and `real_s` turnaround, the
    `deviation` (P - R) / R, and whether it was the `first` of the job."""
    ended = jobs.select(*RUN, pl.col("job_id").alias("job"), "submission_time", "finish_time")
    real = pl.col("finish_time") - pl.col("submission_time")
    return (
        predictions.join(ended, on=(*RUN, "job"), how="inner", maintain_order="left")
        .with_columns(
            real_s=real,
            predicted_s=pl.col("end_s") - pl.col("submission_time"),
            first=pl.int_range(pl.len()).over(*RUN, "job", "predictor") == 0,
        )
        .with_columns(deviation=(pl.col("predicted_s") - pl.col("real_s")) / pl.col("real_s"))
    )


def accuracies(scores: pl.DataFrame) -> list[Accuracy]:
    """One per point, scheduler and predictor, in order of first appearance."""
    found = []
    inside = pl.col("finish_time").is_between(pl.col("low_s"), pl.col("high_s"))
    for (point, scheduler, predictor), rows in scores.group_by(
        "point", "scheduler", "predictor", maintain_order=True
    ):
        never = rows.filter(pl.col("predicted_s").is_infinite()).height
        finite = rows.filter(pl.col("predicted_s").is_finite())
        first = finite.filter("first")
        found.append(
            Accuracy(
                int(point),
                str(scheduler),
                str(predictor),
                _over_replications(first, 100 * pl.col("deviation").abs().mean()),
                _over_replications(first, 100 * pl.col("deviation").mean()),
                _over_replications(first, 100 * (pl.col("deviation") > 0).mean()),
                _over_replications(finite, 100 * pl.col("deviation").abs().mean()),
                _over_replications(first.filter(pl.col("low_s").is_not_null()), 100 * inside.mean()),
                rows.height,
                never,
            )
        )
    return found


def _over_replications(rows: pl.DataFrame, figure: pl.Expr) -> Interval | None:
    if rows.is_empty():
        return None
    values = rows.group_by("replication", maintain_order=True).agg(figure.alias("value"))["value"].to_numpy()
    return interval(values[np.isfinite(values)])
