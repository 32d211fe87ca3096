"""Errors of predicted turnaround: what they were, job by job, and their means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sil.outcome.statistics import Interval, interval
from sil.trace.facts import RUN

_DEVIATION = pl.col("deviation")
_INSIDE = pl.col("finish_time").is_between(pl.col("low_s"), pl.col("high_s"))
_FIRST, _BOUNDED = pl.col("first"), pl.col("low_s").is_not_null()
ERRORS = {
    "deviation": (_FIRST, 100 * _DEVIATION.abs().mean()),
    "bias": (_FIRST, 100 * _DEVIATION.mean()),
    "over": (_FIRST, 100 * (_DEVIATION > 0).mean()),
    "deviation_of_all": (pl.lit(True), 100 * _DEVIATION.abs().mean()),
    "coverage": (_FIRST & _BOUNDED, 100 * _INSIDE.mean()),
}
"""The intervals of an Accuracy: of which predictions, and what in one replication. The mean of |P - R| / R in
percent, the signed one, the share of predictions that were too long; all of the first prediction for each
job; the first one of all predictions; the share (%) of first predictions whose interval contains the real
turnaround."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The accuracy of one predictor under one scheduler at one point: ERRORS as means over replications, None
    without predictions. `never` is the number of predictions, over all replications, that the job would not
    end; they count in none of the others."""

    point: int
    scheduler: str
    predictor: str
    errors: dict[str, Interval | None]
    n_predictions: int
    never: int

    def as_dict(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in ("point", "scheduler", "predictor")},
            "predictions": self.n_predictions,
            "never": self.never,
            **{name: None if found is None else found.as_dict() for name, found in self.errors.items()},
        }


def score_predictions(predictions: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """The predictions of jobs that ended, in order of time: with `predicted_s` and `real_s` turnaround, the
    `deviation` (P - R) / R, and whether it was the `first` of the job."""
    ended = jobs.select(*RUN, "submission_time", "finish_time", job="job_id")
    return (
        predictions.join(ended, on=(*RUN, "job"), how="inner", maintain_order="left")
        .with_columns(
            real_s=pl.col("finish_time") - pl.col("submission_time"),
            predicted_s=pl.col("end_s") - pl.col("submission_time"),
            first=pl.int_range(pl.len()).over(*RUN, "job", "predictor") == 0,
        )
        .with_columns(deviation=(pl.col("predicted_s") - pl.col("real_s")) / pl.col("real_s"))
    )


def accuracies(scores: pl.DataFrame) -> list[Accuracy]:
    """One per point, scheduler and predictor, in order of first appearance."""
    found = []
    for key, rows in scores.group_by("point", "scheduler", "predictor", maintain_order=True):
        point, scheduler, predictor = key
        finite = rows.filter(pl.col("predicted_s").is_finite())
        errors = {
            name: _over_replications(finite.filter(which), error) for name, (which, error) in ERRORS.items()
        }
        never = int(rows["predicted_s"].is_infinite().sum())
        found.append(Accuracy(int(point), str(scheduler), str(predictor), errors, len(rows), never))
    return found


def _over_replications(rows: pl.DataFrame, error: pl.Expr) -> Interval | None:
    if rows.is_empty():
        return None
    values = rows.group_by("replication", maintain_order=True).agg(value=error)["value"].to_numpy()
    return interval(values[np.isfinite(values)])
