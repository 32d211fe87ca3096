"""The jobs of a replayed log as Batsim's tables: jobs.csv and schedule.csv."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sil.outcome.jobs import BOUNDED_SLOWDOWN, EXECUTION, GPUS_HAD, STRETCH, TURNAROUND
from sil.outcome.metrics import replay_metrics
from sil.trace.facts import Fact, parts_of

WORKLOAD = "w0"
"""Batsim's name for the first workload of a run."""


@dataclass(frozen=True)
class Replayed:
    """A log under several schedulers: `described` as in summary.json, and the jobs of those that have any."""

    described: Mapping[str, Any]
    jobs: Mapping[str, pl.DataFrame]

    @property
    def statistics(self) -> Mapping[str, Mapping[str, float]]:
        """Metrics by scheduler; none for those that broke a rule."""
        found = self.described["schedulers"]
        sentences = ("fault", "refused")
        return {
            name: {key: v for key, v in row.items() if key not in sentences} for name, row in found.items()
        }

    @property
    def faults(self) -> Sequence[str]:
        """A sentence for each scheduler that broke a rule."""
        return self._sentences("fault")

    @property
    def refusals(self) -> Sequence[str]:
        """A sentence for each scheduler under which jobs were refused."""
        return self._sentences("refused")

    def _sentences(self, key: str) -> Sequence[str]:
        return [row[key] for row in self.described["schedulers"].values() if row.get(key)]


def read_jobs_csv(path: Path) -> pl.DataFrame:
    """The columns of a jobs.csv that charts need."""
    kinds: dict[str, type[pl.DataType]] = {
        "job_id": pl.Int64,
        "submission_time": pl.Float64,
        "requested_number_of_resources": pl.Int64,
        "starting_time": pl.Float64,
        "finish_time": pl.Float64,
        "waiting_time": pl.Float64,
        "allocated_resources": pl.String,
        "bounded_slowdown": pl.Float64,
    }
    if "requested_gpus" in pl.read_csv(path, n_rows=0).columns:
        kinds["requested_gpus"] = pl.Float64
    return pl.read_csv(path, columns=list(kinds), schema_overrides=kinds)


def replayed_jobs(trace: Path, log: pl.DataFrame, cut: Collection[int] = ()) -> pl.DataFrame:
    """The jobs of a trace, as `jobs_in` describes them."""
    return jobs_in(pl.scan_parquet(trace), log, cut)


def jobs_in(facts: pl.LazyFrame, log: pl.DataFrame, cut: Collection[int] = ()) -> pl.DataFrame:
    """One row per job that ended or was killed, in order of job id: the columns of Batsim's jobs.csv, and
    bounded_slowdown (threshold 10 s); and gpus_had, the number of its GPUs. Times are seconds.

    `log` has the columns job and estimate_s; the runs of the jobs `cut` were ended at their estimate.
    """
    runs = _runs_once(facts)
    estimate = _places_of(runs["job_id"].to_numpy(), log["job"].to_numpy())
    was_killed = pl.col("ending") == Fact.RUN_PREEMPTED
    was_cut = pl.col("job_id").is_in(list(cut))
    return runs.with_columns(requested_time=_gathered(log["estimate_s"], estimate)).select(
        "job_id",
        pl.lit(WORKLOAD).alias("workload_name"),
        pl.concat_str(pl.lit("run-"), pl.col("job_id")).alias("profile"),
        "submission_time",
        pl.col("tasks").alias("requested_number_of_resources"),
        "requested_time",
        (~was_killed & ~was_cut).cast(pl.Int32).alias("success"),
        pl.when(was_killed)
        .then(pl.lit("COMPLETED_KILLED"))
        .when(was_cut)
        .then(pl.lit("COMPLETED_WALLTIME_REACHED"))
        .otherwise(pl.lit("COMPLETED_SUCCESSFULLY"))
        .alias("final_state"),
        "starting_time",
        EXECUTION.alias("execution_time"),
        "finish_time",
        # Jobs of a log run once; a difference of two times has the fewest rounding errors.
        (pl.col("starting_time") - pl.col("submission_time")).alias("waiting_time"),
        TURNAROUND.alias("turnaround_time"),
        STRETCH.alias("stretch"),
        pl.col("machines").alias("allocated_resources"),
        pl.lit(-1).alias("consumed_energy"),
        pl.col("metadata").fill_null(""),
        BOUNDED_SLOWDOWN.alias("bounded_slowdown"),
        "gpus_had",
    )


def _runs_once(facts: pl.LazyFrame) -> pl.DataFrame:
    """The runs of jobs that arrived and ended or were killed, in order of job id, with the metadata of the
    jobs; each arrives and each run is over once."""
    wanted = {
        (Fact.JOB_ARRIVED,): ("job", "time_s"),
        (Fact.RUN_STARTED,): ("job", "run", "time_s", "machines", "tasks", "gpus_had"),
        (Fact.RUN_ENDED, Fact.RUN_PREEMPTED): ("run", "time_s", "event"),
        (Fact.JOB_DESCRIBED,): ("job", "detail"),
    }
    found: list[list[pl.DataFrame]] = [[] for _ in wanted]
    for part in parts_of(facts, ("time_s", "event", "job", "run", "machines", "tasks", "detail")):
        part = part.with_columns(gpus_had=GPUS_HAD)
        for tables, (kinds, names) in zip(found, wanted.items(), strict=True):
            tables.append(part.select(pl.col(names).filter(pl.col("event").is_in(kinds))))
    # Taken out one by one, so that few are in memory twice.
    arrived, started, over, described = (pl.concat(found.pop(0), rechunk=True) for _ in wanted)
    described = described.unique("job", keep="last")
    job_ids = started["job"].to_numpy()
    end = _places_of(started["run"].to_numpy(), over["run"].to_numpy())
    arrival = _places_of(job_ids, arrived["job"].to_numpy())
    rows = np.flatnonzero((end >= 0) & (arrival >= 0))
    rows = rows[np.argsort(job_ids[rows], kind="stable")]
    end, arrival, job_ids = end[rows], arrival[rows], job_ids[rows]
    return (
        started[rows]
        .select("machines", "tasks", "gpus_had", job_id="job", starting_time="time_s")
        .with_columns(
            submission_time=arrived["time_s"].gather(arrival),
            finish_time=over["time_s"].gather(end),
            ending=over["event"].gather(end),
            metadata=_gathered(described["detail"], _places_of(job_ids, described["job"].to_numpy())),
        )
    )


def _places_of(wanted: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each of the wanted numbers is among `numbers`, which are different; -1 if it is not there."""
    if not len(numbers):
        return np.full(len(wanted), -1)
    order = np.argsort(numbers, kind="stable")
    in_order = numbers[order]
    found = np.searchsorted(in_order, wanted).clip(max=len(numbers) - 1)
    return np.where(in_order[found] == wanted, order[found], -1)


def _gathered(values: pl.Series, places: NDArray[np.int64]) -> pl.Series:
    """The values at these places; null at -1."""
    found = pl.Series(places)
    return values.gather(found.set(found < 0, None))


def batsim_schedule(jobs: pl.DataFrame, n_jobs: int, processors: int, scheduling_s: float) -> pl.DataFrame:
    """The one row of Batsim's schedule.csv. Energy and states of machines are not modelled: -1 and 0."""
    found = replay_metrics(jobs, processors)
    successes = int(jobs["success"].sum())
    stretch = jobs["stretch"]
    computing = float((jobs["requested_number_of_resources"] * jobs["execution_time"]).sum())
    ends_s = float(jobs["finish_time"].max() or 0.0)  # type: ignore[arg-type]
    row = {
        "batsim_version": "sil",
        "consumed_joules": -1.0,
        "makespan": ends_s,
        "max_slowdown": stretch.max(),
        "max_turnaround_time": found.get("turnaround_time_max"),
        "max_waiting_time": found.get("waiting_time_max"),
        "mean_slowdown": stretch.mean(),
        "mean_turnaround_time": found.get("turnaround_time_mean"),
        "mean_waiting_time": found.get("waiting_time_mean"),
        "nb_computing_machines": processors,
        "nb_grouped_switches": 0,
        "nb_jobs": n_jobs,
        "nb_jobs_finished": len(jobs),
        "nb_jobs_killed": len(jobs) - successes,
        "nb_jobs_success": successes,
        "nb_machine_switches": 0,
        "scheduling_time": scheduling_s,
        "simulation_time": scheduling_s,
        "success_rate": successes / n_jobs,
        "time_computing": computing,
        "time_idle": processors * ends_s - computing,
        "time_sleeping": 0.0,
        "time_switching_off": 0.0,
        "time_switching_on": 0.0,
    }
    return pl.DataFrame([row])
