"""The statistics of the jobs of a replayed log, which arrive in parts: exact, hence the same however the jobs
are divided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple

import polars as pl

from sil.outcome.jobs import BOUND_S, bounded_slowdown
from sil.outcome.metrics import GPU_UTILISATION, MAKESPAN, OF_DEADLINES, ROUNDING_S, UTILISATION
from sil.outcome.statistics import ExactSum, ExactSummary

_SUMMARISED = ("waiting_time", "turnaround_time", "bounded_slowdown")
_NEEDED = (
    *_SUMMARISED,
    "success",
    "stretch",
    "requested_number_of_resources",
    "execution_time",
    "submission_time",
    "finish_time",
)


class MeasuredJobs(NamedTuple):
    """The numbers of the jobs that count, and the times of their first and last submission: utilisation is
    that of this time, by all jobs, and there is no makespan."""

    jobs: Sequence[int]
    from_s: float
    until_s: float


class ReplayStatistics:
    """The statistics of jobs with the columns of Batsim's jobs.csv and bounded_slowdown; if there are GPUs,
    also requested_gpus. What is too large for memory is kept in `folder`. All jobs count, unless some are
    `measured`."""

    def __init__(
        self,
        processors: int,
        gpus: int = 0,
        folder: Path | None = None,
        measured: MeasuredJobs | None = None,
        bound_s: float = BOUND_S,
    ) -> None:
        self._measured = measured
        self._processors, self._gpus = processors, gpus
        self._summaries = {name: ExactSummary(folder) for name in _SUMMARISED}
        area = pl.col("requested_number_of_resources") * pl.col("execution_time")
        self._expressions = {
            "stretch": pl.col("stretch"),
            "per_processor": bounded_slowdown(
                pl.col("execution_time"), bound_s, pl.col("requested_number_of_resources")
            ),
            "area": area,
            "weighted_wait": area * pl.col("waiting_time"),
        }
        """What is summed over the jobs that count."""
        ran_s = pl.col("execution_time")
        if measured is not None:
            from_s, until_s = measured.from_s, measured.until_s
            there_s = pl.min_horizontal("finish_time", until_s) - pl.max_horizontal("starting_time", from_s)
            ran_s = pl.min_horizontal(ran_s, there_s)  # it may have been suspended
        held = {"computing": "requested_number_of_resources", **({"gpus": "requested_gpus"} if gpus else {})}
        self._held = {name: (pl.col(what) * ran_s.clip(0.0)).cast(pl.Float64) for name, what in held.items()}
        """What is summed over all jobs: seconds of processors, and of GPUs."""
        self._sums = {name: ExactSum() for name in (*self._expressions, *self._held)}
        self._tardiness, self._n_missed = ExactSummary(folder), 0
        self._most_stretch = -inf
        self.n = self._successes = 0
        self._begins_s, self._ends_s = inf, 0.0

    @property
    def columns(self) -> list[str]:
        """The columns that `add` needs."""
        of_part = [] if self._measured is None else ["job_id", "starting_time"]
        return [*_NEEDED, *of_part, *(["requested_gpus"] if self._gpus else [])]

    def add(self, jobs: pl.DataFrame) -> None:
        """Add some jobs."""
        self._sum(jobs, self._held)
        if self._measured is not None:
            jobs = jobs.filter(pl.col("job_id").is_in(self._measured.jobs))
        if jobs.is_empty():
            return
        for name, summary in self._summaries.items():
            summary.add(jobs[name].to_numpy())
        self._sum(jobs, self._expressions)
        if "tardiness" in jobs.columns:
            late_s = jobs["tardiness"].drop_nulls().to_numpy()
            self._tardiness.add(late_s)
            self._n_missed += int((late_s > ROUNDING_S).sum())
        self.n += len(jobs)
        self._successes += int(jobs["success"].sum())
        self._most_stretch = max(self._most_stretch, float(jobs["stretch"].max()))  # type: ignore[arg-type]
        self._begins_s = min(self._begins_s, float(jobs["submission_time"].min()))  # type: ignore[arg-type]
        self._ends_s = max(self._ends_s, float(jobs["finish_time"].max()))  # type: ignore[arg-type]

    def _sum(self, jobs: pl.DataFrame, what: Mapping[str, pl.Expr]) -> None:
        for column in jobs.select(**what):
            self._sums[column.name].add(column.to_numpy())

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of `sil.outcome.metrics.REPLAY_METRICS`; none without jobs."""
        if not self.n:
            return {}
        found = {}
        for name, summary in self._summaries.items():
            found[f"{name}_mean"] = summary.sum.mean
            found[f"{name}_median"], found[f"{name}_p95"] = summary.quantile(0.5), summary.quantile(0.95)
            found[f"{name}_max"] = summary.max
        if n_due := self._tardiness.sum.n:
            values = 100.0 * self._n_missed / n_due, self._tardiness.sum.mean, self._tardiness.max
            found |= {m.key: value for m, value in zip(OF_DEADLINES, values, strict=True)}
        sums = {name: each.sum for name, each in self._sums.items()}
        found["per_processor_slowdown_mean"] = self._sums["per_processor"].mean
        if sums["area"] > 0.0:
            found["weighted_waiting_time_mean"] = sums["weighted_wait"] / sums["area"]
        begins_s, ends_s = self.span_s
        if self._measured is None:
            found[MAKESPAN.key] = ends_s - begins_s
        if (span_s := ends_s - begins_s) > 0.0:
            found[UTILISATION.key] = 100.0 * sums["computing"] / (self._processors * span_s)
            if self._gpus:
                found[GPU_UTILISATION.key] = 100.0 * sums["gpus"] / (self._gpus * span_s)
        return found

    @property
    def span_s(self) -> tuple[float, float]:
        """The time of which utilisation is a share."""
        if self._measured is not None:
            return self._measured.from_s, self._measured.until_s
        return self._begins_s, self._ends_s

    @property
    def computing_s(self) -> float:
        """Processor-seconds that runs held in this time."""
        return self._sums["computing"].sum

    def schedule(self, n_jobs: int, scheduling_s: float) -> pl.DataFrame:
        """The one row of Batsim's schedule.csv, of `n_jobs` that arrived or were to. Energy and states of
        machines are not modelled: -1 and 0."""
        n, ends_s, computing_s = self.n, self._ends_s, self.computing_s
        mean = {name: summary.sum.mean if n else None for name, summary in self._summaries.items()}
        most = {name: summary.max if n else None for name, summary in self._summaries.items()}
        row = {
            "batsim_version": "sil",
            "consumed_joules": -1.0,
            "makespan": ends_s,
            "max_slowdown": self._most_stretch if n else None,
            "max_turnaround_time": most["turnaround_time"],
            "max_waiting_time": most["waiting_time"],
            "mean_slowdown": self._sums["stretch"].mean if n else None,
            "mean_turnaround_time": mean["turnaround_time"],
            "mean_waiting_time": mean["waiting_time"],
            "nb_computing_machines": self._processors,
            "nb_grouped_switches": 0,
            "nb_jobs": n_jobs,
            "nb_jobs_finished": n,
            "nb_jobs_killed": n - self._successes,
            "nb_jobs_success": self._successes,
            "nb_machine_switches": 0,
            "scheduling_time": scheduling_s,
            "simulation_time": scheduling_s,
            "success_rate": self._successes / n_jobs,
            "time_computing": computing_s,
            "time_idle": self._processors * ends_s - computing_s,
            "time_sleeping": 0.0,
            "time_switching_off": 0.0,
            "time_switching_on": 0.0,
        }
        return pl.DataFrame([row])
