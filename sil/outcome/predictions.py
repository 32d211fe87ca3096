"""Errors of predicted turnaround."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from sil.outcome.statistics import Interval, interval
from sil.trace.facts import RUN

JOB = (*RUN, "job")


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
        found = asdict(self)
        return {
            **{name: found.pop(name) for name in ("point", "scheduler", "predictor")},
            "predictions": found.pop("n_predictions"),
            "never": found.pop("never"),
            **found,
        }


def scored(predictions: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """The predictions of jobs that ended, in order of time: with `predicted_s` and `real_s` turnaround, the
    `deviation` (P - R) / R, and whether it was the `first` of the job."""
    ended = jobs.select(*RUN, pl.col("job_id").alias("job"), "submission_time", "finish_time")
    real = pl.col("finish_time") - pl.col("submission_time")
    return (
        predictions.join(ended, on=JOB, how="inner", maintain_order="left")
        .with_columns(
            real_s=real,
            predicted_s=pl.col("end_s") - pl.col("submission_time"),
            first=pl.int_range(pl.len()).over(*JOB, "predictor") == 0,
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
