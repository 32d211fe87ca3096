"""The table of jobs and the table of runs, computed from the trace."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from sil.outcome.refused_and_failed import given_up
from sil.trace.csv_tables import write_csv
from sil.trace.facts import RUN, Fact
from sil.trace.requests import request_of

BOUND_S = 10.0
"""Shorter run times count as this in bounded slowdowns, unless another threshold is given."""

ENDINGS = (Fact.RUN_ENDED, Fact.RUN_PREEMPTED, Fact.RUN_LOST, Fact.RUN_DISCARDED)

EXECUTION = pl.col("finish_time") - pl.col("starting_time")
TURNAROUND = pl.col("finish_time") - pl.col("submission_time")


def stretch(execution: pl.Expr = EXECUTION) -> pl.Expr:
    return TURNAROUND / execution


def bounded_slowdown(
    execution: pl.Expr = EXECUTION, bound_s: float = BOUND_S, processors: pl.Expr | int = 1
) -> pl.Expr:
    """With the number of `processors`, that per processor (Zotkin and Keleher 1999)."""
    least = pl.max_horizontal(execution, pl.lit(bound_s)) * processors
    return pl.max_horizontal(TURNAROUND / least, pl.lit(1.0))


GPUS_HAD = pl.col("detail").str.count_matches("[@,]")
"""Of the fact of a start, whose detail `shares_text` wrote."""
WITH_GPUS_OF_WHOLE_NODES = pl.coalesce("requested_gpus", pl.col("gpus_had").cast(pl.Float64))
"""`requested_gpus` of jobs, where these are null for whole nodes: there those that the job had."""


def run_table(facts: pl.DataFrame) -> pl.DataFrame:
    """One row per run of a job that is over, in order of start.

    Columns: point, replication, scheduler, job, run, resource, machines (`tasks` of them), from_s, until_s
    and `ending`, one of ENDINGS.
    """
    return _runs(facts.lazy()).collect()


def job_table(facts: pl.DataFrame, n_machines: int, bound_s: float = BOUND_S) -> pl.DataFrame:
    """The jobs that ended, as described at `lazy_job_table`, in order of run of the harness and job; where
    jobs request parts of nodes, with the column requested_gpus: with whole nodes, all GPUs of the nodes."""
    return _with_requested_gpus(lazy_job_table(facts.lazy(), n_machines, bound_s).collect(), facts)


def failed_job_table(facts: pl.DataFrame, n_machines: int, bound_s: float = BOUND_S) -> pl.DataFrame:
    """The jobs that were given up after failed runs, like those of `job_table`, with the times of their last
    runs and the `reason`."""
    key, failed = (*RUN, "job"), given_up(facts).lazy()
    last = _runs(facts.lazy()).join(failed, on=key, how="inner", maintain_order="left")
    last = last.unique(key, keep="last", maintain_order=True)
    failed_jobs = _job_table(facts.lazy(), last, n_machines, bound_s, "reason")
    return _with_requested_gpus(failed_jobs.collect(), facts)


def _with_requested_gpus(jobs: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    arrived = facts.filter(pl.col("event") == Fact.JOB_ARRIVED, pl.col("detail").is_not_null())
    if arrived.is_empty():
        return jobs
    texts = arrived["detail"].unique().to_list()
    requests = [request_of(text) for text in texts]
    gpus = [None if request.exclusive else request.n_gpus for request in requests]
    known = pl.DataFrame(
        {"detail": texts, "requested_gpus": gpus}, schema_overrides={"requested_gpus": pl.Float64}
    )
    requested = arrived.join(known, on="detail").select(*RUN, "requested_gpus", job_id="job")
    jobs = jobs.join(requested, on=(*RUN, "job_id"), how="left", maintain_order="left")
    return jobs.with_columns(WITH_GPUS_OF_WHOLE_NODES)


def with_gpus(runs: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """A table of runs with the column requested_gpus of their jobs."""
    gpus = jobs.select(*RUN, "requested_gpus", job="job_id")
    return runs.join(gpus, on=(*RUN, "job"), how="left", maintain_order="left")


def lazy_job_table(facts: pl.LazyFrame, n_machines: int, bound_s: float = BOUND_S) -> pl.LazyFrame:
    """One row per job that ended, in order of run of the harness and job.

    Columns as in Batsim's jobs.csv (job_id, submission_time, starting_time, execution_time, finish_time,
    waiting_time, turnaround_time, stretch), and: job_class, queue, user, parallel (it ran on a cluster, on
    several nodes, or with several tasks), tasks, attempts (number of runs), bounded_slowdown (threshold
    `bound_s`) and that per_processor, resource, machines, and gpus_had (the number of GPUs of which it had
    all or a part). Times are seconds, those of the run that ended.
    Waiting time is turnaround time less execution time: runs that were lost or preempted count as waiting.
    """
    ended = _runs(facts).filter(pl.col("ending") == Fact.RUN_ENDED)
    return _job_table(facts, ended, n_machines, bound_s)


def _job_table(
    facts: pl.LazyFrame, last_runs: pl.LazyFrame, n_machines: int, bound_s: float, *more: str
) -> pl.LazyFrame:
    """One row per job, with its last run and `more` columns of that."""
    key = (*RUN, "job")
    arrived = facts.filter(pl.col("event") == Fact.JOB_ARRIVED).select(
        *key, "job_class", "queue", "user", pl.col("time_s").alias("submission_time")
    )
    attempts = _runs(facts).group_by(key).agg(pl.len().alias("attempts"))
    return (
        last_runs.rename({"from_s": "starting_time", "until_s": "finish_time"})
        .join(arrived, on=key, how="inner")
        .join(attempts, on=key, how="inner")
        .sort(key)
        .select(
            *RUN,
            pl.col("job").alias("job_id"),
            "job_class",
            "queue",
            "user",
            "submission_time",
            "starting_time",
            EXECUTION.alias("execution_time"),
            "finish_time",
            (TURNAROUND - EXECUTION).alias("waiting_time"),
            TURNAROUND.alias("turnaround_time"),
            stretch().alias("stretch"),
            bounded_slowdown(bound_s=bound_s).alias("bounded_slowdown"),
            ((pl.col("resource") >= n_machines) | pl.col("has_tasks")).alias("parallel"),
            "attempts",
            "resource",
            "machines",
            "tasks",
            "gpus_had",
            *more,
            per_processor=bounded_slowdown(bound_s=bound_s, processors=pl.col("tasks")),
        )
    )


def write_jobs_csv(path: Path, jobs: pl.DataFrame, failed: pl.DataFrame) -> None:
    """The jobs that ended, and those that failed (`failed_job_table`), as a CSV file.

    Further columns of Batsim's jobs.csv: `allocated_resources` are closed intervals of machines: `0-7 12`;
    `success` is 1, and `final_state` says so; or 0, and `metadata` says why.
    """
    ended = _with_state(jobs, 1, "COMPLETED_SUCCESSFULLY", pl.lit(""))
    others = _with_state(failed.drop("reason"), 0, "COMPLETED_FAILED", failed["reason"])
    table = pl.concat([ended, others]).sort(*RUN, "job_id", maintain_order=True)
    table = table.rename({"machines": "allocated_resources"}).drop(
        "resource", "tasks", "gpus_had", "per_processor"
    )
    write_csv(table, path)


def _with_state(jobs: pl.DataFrame, success: int, state: str, why: pl.Expr | pl.Series) -> pl.DataFrame:
    final = {"success": pl.lit(success), "final_state": pl.lit(state), "metadata": why}
    return jobs.with_columns(**final)


def _runs(facts: pl.LazyFrame) -> pl.LazyFrame:
    started = facts.filter(pl.col("event") == Fact.RUN_STARTED).select(
        *RUN,
        *("job", "run", "resource", "machines", "tasks"),
        pl.col("time_s").alias("from_s"),
        gpus_had=GPUS_HAD,
        # What a run uses of nodes says how many cores it has, which may all be on one node.
        has_tasks=pl.when(pl.col("detail").is_null())
        .then(pl.col("tasks") > 1)
        .otherwise(pl.col("machines").str.contains("[- ]")),
    )
    over = facts.filter(pl.col("event").is_in([fact.value for fact in ENDINGS])).select(
        *RUN, "run", pl.col("time_s").alias("until_s"), pl.col("event").alias("ending")
    )
    return started.join(over, on=(*RUN, "run"), how="inner", maintain_order="left")
