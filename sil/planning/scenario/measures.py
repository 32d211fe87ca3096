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


def measured(metric: str, jobs: pl.DataFrame, held: pl.DataFrame, n_places: int) -> float:
    """A metric of the plan file, of `jobs` as jobs.csv has them; utilisation (%) of what was `held` (`tasks`
    machines from `from_s` until `until_s`) from the first of their submissions to the last of their ends, on
    so many machines. NaN where there are no jobs."""
    if not len(jobs):
        return nan
    begins_s, ends_s = jobs.select(pl.col("submission_time").min(), pl.col("finish_time").max()).row(0)
    makespan_s = float(ends_s - begins_s)
    if metric == "makespan":
        return makespan_s
    if metric == "utilisation":
        within_s = pl.col("until_s").clip(begins_s, ends_s) - pl.col("from_s").clip(begins_s, ends_s)
        busy_s = float(held.select((within_s * pl.col("tasks")).sum()).item())
        return 100.0 * busy_s / (n_places * makespan_s)
    kind, _, quantity = metric.partition("_")
    values = jobs[_COLUMNS[quantity]].to_numpy()
    return float(values.mean() if kind == "mean" else np.percentile(values, 95))
