"""The jobs of a replayed log as tables: Batsim's jobs.csv and schedule.csv, and statistics."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sil.outcome.jobs import BOUNDED_SLOWDOWN_THRESHOLD_S
from sil.trace.facts import Fact

WORKLOAD = "w0"
"""As Batsim calls the first workload of a run."""

STATISTICS = ("mean", "median", "p95", "max")
OF_JOBS = ("waiting_time", "turnaround_time", "bounded_slowdown")


@dataclass(frozen=True)
class Replayed:
    """A log under several schedulers: `described` as in summary.json, and the jobs of those that have any."""

    described: Mapping[str, Any]
    jobs: Mapping[str, pl.DataFrame]

    @property
    def statistics(self) -> Mapping[str, Mapping[str, float]]:
        """Of each scheduler; none of those that broke a rule."""
        found = self.described["schedulers"]
        return {name: {key: v for key, v in told.items() if key != "fault"} for name, told in found.items()}

    @property
    def faults(self) -> Sequence[str]:
        """A sentence for each scheduler that broke a rule."""
        return [told["fault"] for told in self.described["schedulers"].values() if told["fault"]]


def read_jobs_csv(path: Path) -> pl.DataFrame:
    """What charts need of a jobs.csv."""
    kinds = {
        "job_id": pl.Int64,
        "submission_time": pl.Float64,
        "requested_number_of_resources": pl.Int64,
        "starting_time": pl.Float64,
        "finish_time": pl.Float64,
        "waiting_time": pl.Float64,
        "allocated_resources": pl.String,
        "bounded_slowdown": pl.Float64,
    }
    return pl.read_csv(path, columns=list(kinds), schema_overrides=kinds)


def replayed_jobs(trace: Path, log: pl.DataFrame, cut: Collection[int] = ()) -> pl.DataFrame:
    """One row per job that ended or was killed, in order of job id: the columns of Batsim's jobs.csv, and
    bounded_slowdown (threshold 10 s). Times are seconds. `log` has the columns job and estimate_s; runs
    of the jobs `cut` ended before they were done."""
    facts = pl.scan_parquet(trace).select("time_s", "event", "job", "run", "machines", "tasks", "detail")
    event, time_s = pl.col("event"), pl.col("time_s")
    arrived = facts.filter(event == Fact.JOB_ARRIVED).select("job", time_s.alias("submission_time"))
    started = facts.filter(event == Fact.RUN_STARTED).select(
        "job", "run", "tasks", time_s.alias("starting_time"), pl.col("machines").alias("allocated_resources")
    )
    ended = facts.filter(event.is_in([Fact.RUN_ENDED, Fact.RUN_PREEMPTED])).select(
        "run", time_s.alias("finish_time"), was_killed=event == Fact.RUN_PREEMPTED
    )
    described = facts.filter(event == Fact.JOB_DESCRIBED).group_by("job").agg(pl.col("detail").last())
    execution, turnaround = (
        pl.col("finish_time") - pl.col("starting_time"),
        pl.col("finish_time") - pl.col("submission_time"),
    )
    was_cut = pl.col("job").is_in(list(cut))
    bounded = turnaround / pl.max_horizontal(execution, pl.lit(BOUNDED_SLOWDOWN_THRESHOLD_S))
    return (
        started.join(ended, on="run", how="inner")
        .join(arrived, on="job", how="inner")
        .join(log.lazy().select("job", "estimate_s"), on="job", how="left")
        .join(described, on="job", how="left")
        .sort("job")
        .select(
            pl.col("job").alias("job_id"),
            pl.lit(WORKLOAD).alias("workload_name"),
            pl.concat_str(pl.lit("run-"), pl.col("job")).alias("profile"),
            "submission_time",
            pl.col("tasks").alias("requested_number_of_resources"),
            pl.col("estimate_s").alias("requested_time"),
            (~pl.col("was_killed") & ~was_cut).cast(pl.Int32).alias("success"),
            pl.when("was_killed")
            .then(pl.lit("COMPLETED_KILLED"))
            .when(was_cut)
            .then(pl.lit("COMPLETED_WALLTIME_REACHED"))
            .otherwise(pl.lit("COMPLETED_SUCCESSFULLY"))
            .alias("final_state"),
            "starting_time",
            execution.alias("execution_time"),
            "finish_time",
            (pl.col("starting_time") - pl.col("submission_time")).alias("waiting_time"),
            turnaround.alias("turnaround_time"),
            (turnaround / execution).alias("stretch"),
            "allocated_resources",
            pl.lit(-1).alias("consumed_energy"),
            pl.col("detail").fill_null("").alias("metadata"),
            pl.max_horizontal(bounded, pl.lit(1.0)).alias("bounded_slowdown"),
        )
        .collect()
    )


def statistics(jobs: pl.DataFrame, processors: int) -> dict[str, float]:
    """Mean, median, 95th percentile and maximum of waiting time, turnaround (s) and bounded slowdown;
    utilisation (%) and makespan (s), from the first submission to the last end. The percentile is the least
    value that 95 % of the jobs do not exceed. Nothing where no job ended."""
    if not len(jobs):
        return {}
    found: dict[str, float] = {}
    for name in OF_JOBS:
        column = jobs[name]
        values = (
            column.mean(),
            column.median(),
            np.quantile(column.to_numpy(), 0.95, method="inverted_cdf"),
            column.max(),
        )
        found |= {f"{name}_{what}": float(v) for what, v in zip(STATISTICS, values, strict=True)}
    span = jobs.select(pl.col("finish_time").max() - pl.col("submission_time").min())
    makespan_s = float(span.item())
    work = float((jobs["requested_number_of_resources"] * jobs["execution_time"]).sum())
    return {**found, "utilisation": 100.0 * work / (processors * makespan_s), "makespan": makespan_s}


def batsim_schedule(jobs: pl.DataFrame, n_jobs: int, processors: int, scheduling_s: float) -> pl.DataFrame:
    """The one row of Batsim's schedule.csv. Energy and states of machines are not modelled: -1 and 0."""
    found = statistics(jobs, processors)
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
