"""The jobs that count in a report, and their statistics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from scheduler import UserError
from sil.outcome.metrics import GPU_UTILISATION, MAKESPAN, REFUSED, UTILISATION
from sil.outcome.replay_statistics import ReplayStatistics
from sil.outcome.replayed_schedulers import SENTENCES, Replayed
from sil.report.analysis import Analysis
from sil.report.replay.over_time import RUNNING, held
from sil.workload.weeks import DAY_S


def measured(replayed: Replayed, analysis: Analysis) -> Replayed:
    """With the jobs that count, and the statistics of these. Raises UserError if there are none."""
    if not analysis.is_trimmed or not replayed.jobs:
        return replayed
    analysis.check(replayed.described["days"])
    submitted_s = [table["submission_time"].to_numpy() for table in replayed.jobs.values()]
    from_s = min(float(times_s.min()) for times_s in submitted_s) + analysis.warm_up_days * DAY_S
    until_s = max(float(times_s.max()) for times_s in submitted_s) - analysis.cool_down_days * DAY_S
    counts = pl.col("submission_time").is_between(from_s, until_s)
    jobs = {name: table.filter(counts) for name, table in replayed.jobs.items()}
    if not any(map(len, jobs.values())):
        raise UserError("no job was submitted between the warm-up and the cool-down; give fewer days")
    rows = {
        name: {key: row[key] for key in (*SENTENCES, *(m.key for m in REFUSED)) if key in row}
        | (_statistics(replayed, jobs[name], name, (from_s, until_s)) if replayed.statistics[name] else {})
        for name, row in replayed.described["schedulers"].items()
    }
    left = {name: table for name, table in jobs.items() if len(table)}
    return replace(replayed, described={**replayed.described, "schedulers": rows}, jobs=left)


def _statistics(
    replayed: Replayed, jobs: pl.DataFrame, name: str, between_s: tuple[float, float]
) -> dict[str, float]:
    """Of some jobs of a scheduler; utilisation is by all jobs, in a part of the time."""
    processors, gpus = int(replayed.described["processors"]), int(replayed.described["gpus"])
    bound_s = float(replayed.described["bounded_slowdown_threshold_s"])
    found = ReplayStatistics(processors, gpus, bound_s=bound_s)
    found.add(jobs)
    metrics = {key: value for key, value in found.metrics.items() if key != MAKESPAN.key}
    for metric, requested, capacity in (
        (UTILISATION, "requested_number_of_resources", processors),
        (GPU_UTILISATION, "requested_gpus", gpus),
    ):
        if metric.key in metrics:
            (in_use,) = held(replayed.jobs[name], RUNNING, pl.col(requested), np.array(between_s))
            metrics[metric.key] = 100.0 * float(in_use) / capacity
    return metrics
