"""The statistics of the jobs of a replayed log, which arrive in parts."""

from __future__ import annotations

from math import inf
from pathlib import Path

import polars as pl

from sil.outcome.exact_summary import ExactSum, ExactSummary
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


class ReplayStatistics:
    """Of jobs with the columns of Batsim's jobs.csv and bounded_slowdown; if there are GPUs, also
    requested_gpus. What is too large for memory is kept in `folder`."""

    def __init__(self, processors: int, gpus: int = 0, folder: Path | None = None) -> None:
        self._processors = processors
        self._gpus = gpus
        self._summaries = {name: ExactSummary(folder) for name in _SUMMARISED}
        self._stretch, self._most_stretch = ExactSum(), -inf
        self._computing, self._gpu_computing = ExactSum(), ExactSum()
        """Seconds of processors, and of GPUs."""
        self.n = self._successes = 0
        self._begins_s, self._ends_s = inf, 0.0

    @property
    def columns(self) -> list[str]:
        """Those that `add` needs."""
        return [*_NEEDED, *(["requested_gpus"] if self._gpus else [])]

    def add(self, jobs: pl.DataFrame) -> None:
        """More jobs."""
        if jobs.is_empty():
            return
        for name, summary in self._summaries.items():
            summary.add(jobs[name].to_numpy())
        self.n += len(jobs)
        self._successes += int(jobs["success"].sum())
        self._stretch.add(jobs["stretch"].to_numpy())
        self._most_stretch = max(self._most_stretch, float(jobs["stretch"].max()))  # type: ignore[arg-type]
        self._computing.add((jobs["requested_number_of_resources"] * jobs["execution_time"]).to_numpy())
        if self._gpus:
            self._gpu_computing.add((jobs["requested_gpus"] * jobs["execution_time"]).to_numpy())
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
        makespan_s = self._ends_s - self._begins_s
        found[UTILISATION.key] = 100.0 * self._computing.sum / (self._processors * makespan_s)
        if self._gpus:
            found[GPU_UTILISATION.key] = 100.0 * self._gpu_computing.sum / (self._gpus * makespan_s)
        return {**found, MAKESPAN.key: makespan_s}

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
