"""The statistics of the jobs of a replayed log, which arrive in parts."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sil.outcome.exact_summary import ExactSum, ExactSummary
from sil.outcome.jobs import BOUND_S, bounded_slowdown
from sil.outcome.metrics import GPU_UTILISATION, MAKESPAN, UTILISATION

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


class Measured(NamedTuple):
    """The numbers of the jobs that count, and the times of their first and last submission: utilisation is
    that of this time, by all jobs, and there is no makespan."""

    jobs: Sequence[int]
    from_s: float
    until_s: float


class ReplayStatistics:
    """Of jobs with the columns of Batsim's jobs.csv and bounded_slowdown; if there are GPUs, also
    requested_gpus. What is too large for memory is kept in `folder`. All jobs count, unless some are
    `measured`."""

    def __init__(
        self,
        processors: int,
        gpus: int = 0,
        folder: Path | None = None,
        measured: Measured | None = None,
        bound_s: float = BOUND_S,
    ) -> None:
        self._bound_s = bound_s
        self._measured = measured
        self._processors = processors
        self._gpus = gpus
        self._summaries = {name: ExactSummary(folder) for name in _SUMMARISED}
        self._stretch, self._most_stretch = ExactSum(), -inf
        self._computing, self._gpu_computing = ExactSum(), ExactSum()
        """Seconds of processors, and of GPUs."""
        self._per_processor, self._area, self._weighted_wait = ExactSum(), ExactSum(), ExactSum()
        """Slowdowns, processor-seconds of jobs, and waiting times times these."""
        self.n = self._successes = 0
        self._begins_s, self._ends_s = inf, 0.0

    @property
    def columns(self) -> list[str]:
        """Those that `add` needs."""
        of_part = [] if self._measured is None else ["job_id", "starting_time"]
        return [*_NEEDED, *of_part, *(["requested_gpus"] if self._gpus else [])]

    def add(self, jobs: pl.DataFrame) -> None:
        """More jobs."""
        ran_s = pl.col("execution_time")
        if self._measured is not None:
            from_s, until_s = self._measured.from_s, self._measured.until_s
            ran_s = pl.min_horizontal("finish_time", until_s) - pl.max_horizontal("starting_time", from_s)
        self._computing.add(_used(jobs, "requested_number_of_resources", ran_s))
        if self._gpus:
            self._gpu_computing.add(_used(jobs, "requested_gpus", ran_s))
        if self._measured is not None:
            jobs = jobs.filter(pl.col("job_id").is_in(self._measured.jobs))
        if jobs.is_empty():
            return
        for name, summary in self._summaries.items():
            summary.add(jobs[name].to_numpy())
        area = jobs["requested_number_of_resources"] * jobs["execution_time"]
        self._area.add(area.to_numpy())
        self._weighted_wait.add((area * jobs["waiting_time"]).to_numpy())
        of_each = bounded_slowdown(
            pl.col("execution_time"), self._bound_s, pl.col("requested_number_of_resources")
        )
        self._per_processor.add(jobs.select(of_each).to_series().to_numpy())
        self.n += len(jobs)
        self._successes += int(jobs["success"].sum())
        self._stretch.add(jobs["stretch"].to_numpy())
        self._most_stretch = max(self._most_stretch, float(jobs["stretch"].max()))  # type: ignore[arg-type]
        self._begins_s = min(self._begins_s, float(jobs["submission_time"].min()))  # type: ignore[arg-type]
        self._ends_s = max(self._ends_s, float(jobs["finish_time"].max()))  # type: ignore[arg-type]

    @property
    def metrics(self) -> dict[str, float]:
        """`sil.outcome.metrics.REPLAY_METRICS`; none without jobs."""
        if not self.n:
            return {}
        found = {}
        for name, summary in self._summaries.items():
            found[f"{name}_mean"] = summary.mean
            found[f"{name}_median"], found[f"{name}_p95"] = summary.quantile(0.5), summary.quantile(0.95)
            found[f"{name}_max"] = summary.max
        found["per_processor_slowdown_mean"] = self._per_processor.mean
        if self._area.sum > 0.0:
            found["weighted_waiting_time_mean"] = self._weighted_wait.sum / self._area.sum
        if self._measured is None:
            found[MAKESPAN.key] = self._ends_s - self._begins_s
        begins_s, ends_s = self.span_s
        if (span_s := ends_s - begins_s) > 0.0:
            found[UTILISATION.key] = 100.0 * self._computing.sum / (self._processors * span_s)
            if self._gpus:
                found[GPU_UTILISATION.key] = 100.0 * self._gpu_computing.sum / (self._gpus * span_s)
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
        return self._computing.sum

    def schedule(self, n_jobs: int, scheduling_s: float) -> pl.DataFrame:
        """The one row of Batsim's schedule.csv, of `n_jobs` that arrived or were to. Energy and states of
        machines are not modelled: -1 and 0."""
        n, successes, ends_s, computing_s = self.n, self._successes, self._ends_s, self._computing.sum
        turnaround, waiting = self._summaries["turnaround_time"], self._summaries["waiting_time"]
        row = {
            "batsim_version": "sil",
            "consumed_joules": -1.0,
            "makespan": ends_s,
            "max_slowdown": self._most_stretch if n else None,
            "max_turnaround_time": turnaround.max if n else None,
            "max_waiting_time": waiting.max if n else None,
            "mean_slowdown": self._stretch.mean if n else None,
            "mean_turnaround_time": turnaround.mean if n else None,
            "mean_waiting_time": waiting.mean if n else None,
            "nb_computing_machines": self._processors,
            "nb_grouped_switches": 0,
            "nb_jobs": n_jobs,
            "nb_jobs_finished": n,
            "nb_jobs_killed": n - successes,
            "nb_jobs_success": successes,
            "nb_machine_switches": 0,
            "scheduling_time": scheduling_s,
            "simulation_time": scheduling_s,
            "success_rate": successes / n_jobs,
            "time_computing": computing_s,
            "time_idle": self._processors * ends_s - computing_s,
            "time_sleeping": 0.0,
            "time_switching_off": 0.0,
            "time_switching_on": 0.0,
        }
        return pl.DataFrame([row])


def _used(jobs: pl.DataFrame, what: str, ran_s: pl.Expr) -> NDArray[np.float64]:
    return jobs.select((pl.col(what) * ran_s.clip(0.0)).cast(pl.Float64)).to_series().to_numpy()
