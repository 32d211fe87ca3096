"""The results of replays, and of the jobs that an analysis measures. Each replay loads this, unlike pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from scheduler import UserError
from sil.outcome.metrics import REFUSED
from sil.outcome.replay_statistics import MeasuredJobs, ReplayStatistics
from sil.report.analysis import Analysis
from sil.workload.slices import DAY_S

SENTENCES = ("fault", "refused")
"""The keys of a scheduler in summary.json that are not statistics."""


@dataclass(frozen=True)
class Replayed:
    """A log under several schedulers: `described` as in summary.json, and the jobs of those that have any; on
    nodes, the `parts` of their runs (`run_parts`)."""

    described: Mapping[str, Any]
    jobs: Mapping[str, pl.DataFrame]
    parts: Mapping[str, pl.DataFrame] = field(default_factory=dict)

    @property
    def statistics(self) -> Mapping[str, Mapping[str, float]]:
        """Metrics by scheduler; none for those that broke a rule."""
        return {
            name: {key: value for key, value in row.items() if key not in SENTENCES}
            for name, row in self.described["schedulers"].items()
        }

    @property
    def faults(self) -> Sequence[str]:
        """A sentence for each scheduler that broke a rule."""
        return [row["fault"] for row in self.described["schedulers"].values() if row.get("fault")]

    @property
    def refusals(self) -> Sequence[str]:
        """A sentence for each scheduler under which jobs were refused."""
        return [row["refused"] for row in self.described["schedulers"].values() if row.get("refused")]


def measured(replayed: Replayed, analysis: Analysis) -> Replayed:
    """The replays with only the jobs that count, and their statistics; utilisation is by all jobs, in a part
    of the time. Raises UserError if there are none."""
    if not analysis.is_trimmed or not replayed.jobs:
        return replayed
    d = replayed.described
    analysis.check(d["days"])
    submitted_s = [table["submission_time"].to_numpy() for table in replayed.jobs.values()]
    from_s = min(float(times_s.min()) for times_s in submitted_s) + analysis.warm_up_days * DAY_S
    until_s = max(float(times_s.max()) for times_s in submitted_s) - analysis.cool_down_days * DAY_S
    counts = pl.col("submission_time").is_between(from_s, until_s)
    jobs = {name: table.filter(counts) for name, table in replayed.jobs.items()}
    if not any(map(len, jobs.values())):
        raise UserError("no job was submitted between the warm-up and the cool-down; give fewer days")
    kept = (*SENTENCES, *(m.key for m in REFUSED))
    rows: dict[str, Any] = {}
    for name, row in d["schedulers"].items():
        rows[name] = {key: row[key] for key in kept if key in row}
        if replayed.statistics[name] and name in jobs:
            of = MeasuredJobs(jobs[name]["job_id"].to_list(), from_s, until_s)
            bound_s = float(d["bounded_slowdown_threshold_s"])
            found = ReplayStatistics(int(d["processors"]), int(d["gpus"]), measured=of, bound_s=bound_s)
            found.add(replayed.jobs[name])
            rows[name] |= found.metrics
    left = {name: table for name, table in jobs.items() if len(table)}
    return replace(replayed, described={**d, "schedulers": rows}, jobs=left)
