"""The table of jobs and the table of runs, computed from the trace, and their files: jobs.csv of an
experiment, and that of a replayed log, which is Batsim's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import polars as pl

from sil.outcome.refused_and_failed import given_up
from sil.trace.facts import RUN, Fact, RunDescription
from sil.trace.held import MACHINES_AS_TEXT, N_GPUS, request_of
from sil.trace.log_ids import LOG_ID
from sil.trace.stream import columns_of, read_csv, write_csv
from site_db.files.input_errors import InvalidFile

BOUND_S = 10.0
"""The least run time in bounded slowdowns, in seconds, unless another threshold is given."""

_JOB = (*RUN, "job")
ENDINGS = (Fact.RUN_ENDED, Fact.RUN_PREEMPTED, Fact.RUN_LOST, Fact.RUN_DISCARDED)

EXECUTION = pl.col("finish_time") - pl.col("starting_time")
TURNAROUND = pl.col("finish_time") - pl.col("submission_time")


def bounded_slowdown(
    execution: pl.Expr = EXECUTION, bound_s: float = BOUND_S, processors: pl.Expr | int = 1
) -> pl.Expr:
    """The bounded slowdown; with the number of `processors`, that per processor (Zotkin and Keleher 1999)."""
    least = pl.max_horizontal(execution, pl.lit(bound_s)) * processors
    return pl.max_horizontal(TURNAROUND / least, pl.lit(1.0))


DUE_IN_S = "due_in_s"
DEADLINE = pl.when(pl.col(DUE_IN_S).is_finite()).then(pl.col("submission_time") + pl.col(DUE_IN_S))
"""The deadline of a job; null without one."""
TARDINESS = (pl.col("finish_time") - pl.col("deadline")).clip(0.0)
OF_DEADLINES = ("deadline", "tardiness")
"""Columns of jobs that may have a deadline."""

WITH_GPUS_OF_WHOLE_NODES = pl.coalesce("requested_gpus", pl.col("gpus_had").cast(pl.Float64))
"""`requested_gpus` of jobs, where these are null for whole nodes: there those that the job had."""


def run_table(facts: pl.DataFrame) -> pl.DataFrame:
    """One row per run of a job that is over, in order of start.

    Columns: point, replication, scheduler, job, run, resource, machines (`tasks` of them), from_s, until_s,
    `ending`, one of ENDINGS, suspended_s, and lost_s, the time since the last checkpoint, or the start, of a
    run that does not count.
    """
    return _runs(facts.lazy()).collect()


def job_table(facts: pl.DataFrame, n_machines: int, bound_s: float = BOUND_S) -> pl.DataFrame:
    """One row per job that ended, in order of run of the harness and job.

    Columns as in Batsim's jobs.csv (job_id, submission_time, starting_time, execution_time, finish_time,
    waiting_time, turnaround_time, stretch), and: job_class, queue, user, parallel (it ran on a cluster, on
    several nodes, or with several tasks), tasks, attempts (number of runs), bounded_slowdown (threshold
    `bound_s`) and that per_processor, resource, machines, and gpus_had (the number of GPUs of which it had
    all or a part). Where jobs request parts of nodes, also requested_gpus: with whole nodes, all GPUs of
    these. Times are seconds, those of the run that ended.
    Waiting time is turnaround time less execution time: runs that were lost or preempted count as waiting.
    If there are such runs, lost_time is the work of a job that was lost with them.
    """
    ended = _runs(facts.lazy()).filter(pl.col("ending") == Fact.RUN_ENDED)
    return _job_table(facts, ended, n_machines, bound_s)


def failed_job_table(facts: pl.DataFrame, n_machines: int, bound_s: float = BOUND_S) -> pl.DataFrame:
    """The jobs that were given up after failed runs, like those of `job_table`, with the times of their last
    runs and the `reason`."""
    last = _runs(facts.lazy()).join(given_up(facts).lazy(), on=_JOB, how="inner", maintain_order="left")
    return _job_table(
        facts, last.unique(_JOB, keep="last", maintain_order=True), n_machines, bound_s, "reason"
    )


def _job_table(
    facts: pl.DataFrame, last_runs: pl.LazyFrame, n_machines: int, bound_s: float, *more: str
) -> pl.DataFrame:
    """One row per job, with its last run and `more` columns of that."""
    arrived = facts.filter(pl.col("event") == Fact.JOB_ARRIVED)
    submitted = (
        arrived.lazy()
        .select(*_JOB, "job_class", "queue", "user", submission_time="time_s", due_in_s="expected_s")
        .with_columns(deadline=DEADLINE)
    )
    attempts = _runs(facts.lazy()).group_by(_JOB).agg(attempts=pl.len())
    if facts["event"].is_in(ENDINGS[1:]).any():
        # By itself and in order: within a query, Polars adds in any order, and sums differ in the last bit.
        by_job = _runs(facts.lazy()).collect().group_by(_JOB, maintain_order=True)
        attempts = by_job.agg(attempts=pl.len(), lost_time=pl.sum("lost_s")).lazy()
        more = (*more, "lost_time")
    jobs = (
        last_runs.rename({"from_s": "starting_time", "until_s": "finish_time"})
        .join(submitted, on=_JOB, how="inner")
        .join(attempts, on=_JOB, how="inner")
        .sort(_JOB)
        .select(
            *RUN,
            pl.col("job").alias("job_id"),
            *("job_class", "queue", "user", "submission_time", "starting_time"),
            EXECUTION.alias("execution_time"),
            "finish_time",
            (TURNAROUND - EXECUTION).alias("waiting_time"),
            TURNAROUND.alias("turnaround_time"),
            (TURNAROUND / EXECUTION).alias("stretch"),
            bounded_slowdown(bound_s=bound_s).alias("bounded_slowdown"),
            ((pl.col("resource") >= n_machines) | pl.col("has_tasks")).alias("parallel"),
            *("attempts", "resource", "machines", "tasks", "gpus_had", "deadline", *more),
            TARDINESS.alias("tardiness"),
            per_processor=bounded_slowdown(bound_s=bound_s, processors=pl.col("tasks")),
        )
        .collect()
    )
    if arrived["detail"].null_count() == len(arrived):
        return jobs
    texts = arrived["detail"].drop_nulls().unique()
    requests = [request_of(text) for text in texts]
    gpus = [None if request.exclusive else request.n_gpus for request in requests]
    known = pl.DataFrame([texts, pl.Series("requested_gpus", gpus, pl.Float64)])
    requested = arrived.join(known, on="detail").select(*RUN, "requested_gpus", job_id="job")
    jobs = jobs.join(requested, on=(*RUN, "job_id"), how="left", maintain_order="left")
    return jobs.with_columns(WITH_GPUS_OF_WHOLE_NODES)


def with_gpus(runs: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """A table of runs with the column requested_gpus of their jobs."""
    gpus = jobs.select(*RUN, "requested_gpus", job="job_id")
    return runs.join(gpus, on=(*RUN, "job"), how="left", maintain_order="left")


def with_clusters(jobs: pl.DataFrame, description: RunDescription) -> pl.DataFrame:
    """A table of jobs with the column `cluster`, where there are several with a scheduler each."""
    if not description.cluster_schedulers:
        return jobs
    names = dict(enumerate(description.clusters, description.n_machines))
    return jobs.with_columns(cluster=pl.col("resource").replace_strict(names, return_dtype=pl.String))


def _runs(facts: pl.LazyFrame) -> pl.LazyFrame:
    first = pl.col("machines").list.first().struct
    started = facts.filter(pl.col("event") == Fact.RUN_STARTED).select(
        *RUN,
        *("job", "run", "resource", "machines", "tasks"),
        pl.col("time_s").alias("from_s"),
        gpus_had=N_GPUS,
        # What a run uses of nodes says how many cores it has, which may all be on one node.
        has_tasks=pl.when(pl.col("shares").is_null())
        .then(pl.col("tasks") > 1)
        .otherwise((pl.col("machines").list.len() > 1) | (first.field("first") < first.field("last"))),
    )
    over = facts.filter(pl.col("event").is_in([fact.value for fact in ENDINGS])).select(
        *RUN, "run", "expected_s", pl.col("time_s").alias("until_s"), pl.col("event").alias("ending")
    )
    is_pause = pl.col("event").is_in([Fact.RUN_STOPPED.value, Fact.RUN_CONTINUED.value])
    sign = pl.when(pl.col("event") == Fact.RUN_STOPPED).then(-1.0).otherwise(1.0)
    pauses = facts.filter(is_pause).group_by(*RUN, "run")
    paused = pauses.agg(paused_s=(pl.col("time_s") * sign).sum(), is_paused=-sign.sum())
    suspended_s = (pl.col("paused_s") + pl.col("is_paused") * pl.col("until_s")).fill_null(0.0)
    ran_s = pl.col("until_s") - pl.col("from_s") - suspended_s
    lost_s = pl.when(pl.col("ending") != Fact.RUN_ENDED).then(pl.coalesce("expected_s", ran_s)).otherwise(0.0)
    return (
        started.join(over, on=(*RUN, "run"), how="inner", maintain_order="left")
        .join(paused, on=(*RUN, "run"), how="left", maintain_order="left")
        .with_columns(suspended_s=suspended_s, lost_s=lost_s)
        .drop("expected_s", "paused_s", "is_paused")
    )


def write_jobs_csv(path: Path, jobs: pl.DataFrame, failed: pl.DataFrame) -> None:
    """The jobs that ended, and those that failed (`failed_job_table`), as a CSV file.

    Further columns of Batsim's jobs.csv: `allocated_resources` are closed intervals of machines: `0-7 12`;
    `success` is 1, and `final_state` says so; or 0, and `metadata` says why.
    """
    ended = jobs.with_columns(success=1, final_state=pl.lit("COMPLETED_SUCCESSFULLY"), metadata=pl.lit(""))
    others = failed.drop("reason").with_columns(
        success=0, final_state=pl.lit("COMPLETED_FAILED"), metadata=failed["reason"]
    )
    table = pl.concat([ended, others]).sort(*RUN, "job_id", maintain_order=True)
    table = table.with_columns(MACHINES_AS_TEXT).rename({"machines": "allocated_resources"})
    without = () if table["deadline"].null_count() < len(table) else OF_DEADLINES
    table = table.drop("resource", "tasks", "gpus_had", "per_processor", *without)
    write_csv(table, path)


JOBS = "jobs.csv"
SCHEDULE = "schedule.csv"
WORKLOAD = "w0"
"""Batsim's name for the first workload of a run."""

TEXTS = ("workload_name", "profile", "final_state", "allocated_resources", "metadata", "partition", LOG_ID)
"""The columns of a jobs.csv that are no numbers."""

PRIORITY = "priority"
"""With this begin columns of replays under a policy: the priority at the start, and its weighted factors."""

_DRAWN = (
    *("job_id", "submission_time", "requested_number_of_resources", "requested_time", "starting_time"),
    *("finish_time", "success", "execution_time", "turnaround_time", "stretch", "waiting_time"),
    *("allocated_resources", "bounded_slowdown"),
)
_RESOURCES = r"^\d{1,9}(-\d{1,9})?( \d{1,9}(-\d{1,9})?)*$"
PROCESSORS = "processors, like '0-7 12'"
_MAY_LACK = ("requested_time", "stretch", "requested_gpus")
"""The numbers that a job may lack, or that may be infinite."""


class ImpossibleJob(InvalidFile):
    """A value of a jobs.csv that no job can have."""


def read_whole_jobs_csv(path: Path) -> pl.DataFrame:
    """All columns of a jobs.csv."""
    texts = {name: pl.String for name in columns_of(path) if name in TEXTS}
    return read_csv(path, texts)


def read_jobs_csv(path: Path) -> pl.DataFrame:
    """The columns of a jobs.csv that charts need. Raises ImpossibleJob."""
    kinds: dict[str, type[pl.DataType]] = dict.fromkeys(_DRAWN, pl.Float64)
    kinds |= dict.fromkeys(("job_id", "requested_number_of_resources", "success"), pl.Int64)
    kinds["allocated_resources"] = pl.String
    if "requested_gpus" in columns_of(path):
        kinds["requested_gpus"] = pl.Float64
    jobs = read_csv(path, kinds, list(kinds))
    valid = {name: pl.col(name).cast(pl.Float64).is_finite() for name in kinds if name not in _MAY_LACK}
    valid["requested_number_of_resources"] &= pl.col("requested_number_of_resources") >= 0
    valid["allocated_resources"] = pl.col("allocated_resources").str.contains(_RESOURCES)
    for name, is_valid in valid.items():
        rows = jobs.select((~is_valid.fill_null(False)).arg_true()).to_series()
        if len(rows):
            value = jobs[name][rows[0]]
            found = "empty" if value is None else repr(value)
            expected = PROCESSORS if name == "allocated_resources" else "a number"
            raise ImpossibleJob(
                f"{path}, line {rows[0] + 2}: {name} is {found}; expected {expected}; this was not written "
                f"by `sil replay`, repeat the replay"
            )
    return jobs


def with_users_and_reasons(jobs: pl.DataFrame, trace: Path) -> pl.DataFrame:
    """Jobs with what only their trace has: `user`, if users are known, and `reason`, why a job waited at last
    and how often it was passed over, if the trace has that."""
    facts = pl.scan_parquet(trace, glob=False)
    users = facts.filter(pl.col("event") == Fact.JOB_ARRIVED).select("user", job_id="job").collect()
    if users["user"].n_unique() > 1:
        jobs = jobs.join(users.unique("job_id", keep="last"), on="job_id", how="left", maintain_order="left")
    passed_over = facts.filter(pl.col("event") == Fact.PASSED_OVER).select("detail", job_id="job")
    reason = pl.concat_str(pl.last("detail"), pl.lit(" (passed over "), pl.len(), pl.lit(" times)"))
    reasons = passed_over.group_by("job_id").agg(reason=reason).collect()
    return jobs.join(reasons, on="job_id", how="left", maintain_order="left") if len(reasons) else jobs


def batsim_jobs(
    finished: pl.DataFrame,
    cut: frozenset[int] = frozenset(),
    columns: Sequence[str] = (),
    bound_s: float = BOUND_S,
) -> pl.DataFrame:
    """One row per finished job (`FinishedJobs`): the columns of Batsim's jobs.csv, and bounded_slowdown
    (threshold `bound_s`); on nodes also partition and requested_gpus; under a policy priorities; restarts and
    lost_time, if jobs may restart; the ids of the log, if jobs have other numbers; or only some `columns`.
    Times are seconds; the time in which a run was suspended is no execution time. The runs of the jobs `cut`
    were ended at their estimate."""
    found = _columns(cut, bound_s)
    if "requested_gpus" in finished.columns:
        found = {**found, "partition": pl.col("partition"), "requested_gpus": WITH_GPUS_OF_WHOLE_NODES}
    of_some = (LOG_ID, "restarts", "lost_time")
    more = (name for name in finished.columns if name in of_some or name.startswith(PRIORITY))
    found = {**found, **{name: pl.col(name) for name in more}}
    if "deadline" in finished.columns:
        found = {**found, "deadline": pl.col("deadline"), "tardiness": TARDINESS}
        columns = columns and (*columns, "tardiness")
    return finished.select(**{name: found[name] for name in columns or found})


@lru_cache(1)
def _columns(cut: frozenset[int], bound_s: float) -> Mapping[str, pl.Expr]:
    was_killed = pl.col("was_killed")
    ran = EXECUTION - pl.col("suspended_s")
    was_cut = pl.col("job_id").is_in(list(cut)) if cut else pl.lit(False)
    final_state = (
        pl.when(was_killed)
        .then(pl.lit("COMPLETED_KILLED"))
        .when(was_cut)
        .then(pl.lit("COMPLETED_WALLTIME_REACHED"))
        .otherwise(pl.lit("COMPLETED_SUCCESSFULLY"))
    )
    return {
        "job_id": pl.col("job_id"),
        "workload_name": pl.lit(WORKLOAD),
        "profile": pl.concat_str(pl.lit("run-"), pl.col("job_id")),
        "submission_time": pl.col("submission_time"),
        "requested_number_of_resources": pl.col("tasks"),
        "requested_time": pl.col("requested_time"),
        "success": (~was_killed & ~was_cut).cast(pl.Int32),
        "final_state": final_state,
        "starting_time": pl.col("starting_time"),
        "execution_time": ran,
        "finish_time": pl.col("finish_time"),
        # Jobs of a log run once; a difference of two times has the fewest rounding errors.
        "waiting_time": pl.col("starting_time") - pl.col("submission_time"),
        "turnaround_time": TURNAROUND,
        "stretch": TURNAROUND / ran,
        "allocated_resources": pl.col("machines"),
        "consumed_energy": pl.lit(-1),
        "metadata": pl.col("metadata").fill_null(""),
        "bounded_slowdown": bounded_slowdown(ran, bound_s),
    }
