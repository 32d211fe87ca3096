"""One figure of a run, from its table of jobs."""

from __future__ import annotations

from math import nan

import numpy as np
import polars as pl

_COLUMNS = {
    "turnaround": "turnaround_time",
    "waiting": "waiting_time",
    "bounded_slowdown": "bounded_slowdown",
}


def measured(metric: str, jobs: pl.DataFrame, busy_s: float, n_places: int) -> float:
    """A metric of the plan file, of `jobs` as jobs.csv has them; utilisation (%) of `busy_s` machine seconds
    on so many machines. NaN where there are no jobs."""
    if not len(jobs):
        return nan
    span = jobs.select(pl.col("finish_time").max() - pl.col("submission_time").min())
    makespan_s = float(span.item())
    if metric == "makespan":
        return makespan_s
    if metric == "utilisation":
        return 100.0 * busy_s / (n_places * makespan_s)
    kind, _, quantity = metric.partition("_")
    values = jobs[_COLUMNS[quantity]].to_numpy()
    return float(values.mean() if kind == "mean" else np.percentile(values, 95))
