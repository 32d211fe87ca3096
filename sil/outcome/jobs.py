"""The table of jobs: one row per job and run of the harness, computed from the trace."""

from __future__ import annotations

import polars as pl

from sil.trace.facts import RUN, Fact

BOUNDED_SLOWDOWN_THRESHOLD_S = 10.0

KEY = (*RUN, "job")


def job_table(facts: pl.DataFrame, n_machines: int) -> pl.DataFrame:
    """One row per job that ended, in order of point, replication, scheduler and job.

    Columns as in Batsim's jobs.csv (job_id, submission_time, starting_time, execution_time, finish_time,
    waiting_time, turnaround_time, stretch, allocated_resources), and: job_class, queue, user, parallel (it
    ran on a cluster, or with several tasks on shared nodes), attempts (how often it was started),
    bounded_slowdown (threshold 10 s). Times are seconds; they are those of the run that ended. Waiting is
    turnaround less execution: a run that was lost or preempted counts as waiting.
    """
    arrived = facts.filter(pl.col("event") == Fact.JOB_ARRIVED).select(
        *KEY, "job_class", "queue", "user", pl.col("time_s").alias("submission_time")
    )
    started = facts.filter(pl.col("event") == Fact.RUN_STARTED).select(
        *KEY, "run", "resource", "machines", "tasks", pl.col("time_s").alias("starting_time")
    )
    ended = facts.filter(pl.col("event") == Fact.RUN_ENDED).select(
        *RUN, "run", pl.col("time_s").alias("finish_time")
    )
    attempts = started.group_by(KEY).agg(pl.len().alias("attempts"))
    execution = pl.col("finish_time") - pl.col("starting_time")
    turnaround = pl.col("finish_time") - pl.col("submission_time")
    bounded = turnaround / pl.max_horizontal(execution, pl.lit(BOUNDED_SLOWDOWN_THRESHOLD_S))
    return (
        started.join(ended, on=(*RUN, "run"), how="inner")
        .join(arrived, on=KEY, how="inner")
        .join(attempts, on=KEY, how="inner")
        .with_columns(
            execution_time=execution,
            turnaround_time=turnaround,
            waiting_time=turnaround - execution,
            stretch=turnaround / execution,
            bounded_slowdown=pl.max_horizontal(bounded, pl.lit(1.0)),
            parallel=(pl.col("resource") >= n_machines) | (pl.col("tasks") > 1),
        )
        .sort(KEY)
        .rename({"job": "job_id"})
        .select(
            *RUN,
            "job_id",
            "job_class",
            "queue",
            "user",
            "submission_time",
            "starting_time",
            "execution_time",
            "finish_time",
            "waiting_time",
            "turnaround_time",
            "stretch",
            "bounded_slowdown",
            "parallel",
            "attempts",
            "resource",
            "machines",
        )
    )


def write_jobs_csv(path: object, jobs: pl.DataFrame) -> None:
    """The table of jobs as a CSV file; `allocated_resources` are closed intervals of machines: `0-7 12`."""
    jobs.rename({"machines": "allocated_resources"}).drop("resource").write_csv(str(path))
