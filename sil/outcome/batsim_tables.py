"""The jobs of a replayed log as Batsim's tables: jobs.csv and schedule.csv."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import polars as pl

from sil.outcome.finished_jobs import COLUMNS, FinishedJobs, Wanted
from sil.outcome.jobs import (
    BOUND_S,
    EXECUTION,
    TURNAROUND,
    WITH_GPUS_OF_WHOLE_NODES,
    bounded_slowdown,
    stretch,
)
from sil.trace.csv_tables import columns_of, read_csv
from sil.trace.fact_columns import FactColumns
from sil.trace.facts import Fact
from sil.trace.log_ids import LOG_ID
from site_db.files.input_errors import InvalidFile

JOBS = "jobs.csv"
SCHEDULE = "schedule.csv"
WORKLOAD = "w0"
"""Batsim's name for the first workload of a run."""

TEXTS = ("workload_name", "profile", "final_state", "allocated_resources", "metadata", "partition", LOG_ID)
"""The columns of a jobs.csv that are no numbers."""


_RESOURCES = r"^\d{1,9}(-\d{1,9})?( \d{1,9}(-\d{1,9})?)*$"
PROCESSORS = "processors, like '0-7 12'"
_MAY_LACK = ("requested_time", "stretch", "requested_gpus")
"""The numbers that a job may have none of, or an infinite one."""


class ImpossibleJob(InvalidFile):
    """A value of a jobs.csv that no job has."""


def read_whole_jobs_csv(path: Path) -> pl.DataFrame:
    """All columns of a jobs.csv."""
    texts = {name: pl.String for name in columns_of(path) if name in TEXTS}
    return read_csv(path, texts)


def read_jobs_csv(path: Path) -> pl.DataFrame:
    """The columns of a jobs.csv that charts need. Raises ImpossibleJob."""
    kinds: dict[str, type[pl.DataType]] = {
        "job_id": pl.Int64,
        "submission_time": pl.Float64,
        "requested_number_of_resources": pl.Int64,
        "requested_time": pl.Float64,
        "starting_time": pl.Float64,
        "finish_time": pl.Float64,
        "success": pl.Int64,
        "execution_time": pl.Float64,
        "turnaround_time": pl.Float64,
        "stretch": pl.Float64,
        "waiting_time": pl.Float64,
        "allocated_resources": pl.String,
        "bounded_slowdown": pl.Float64,
    }
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


def jobs_in(
    facts: pl.DataFrame, log: pl.DataFrame, cut: frozenset[int] = frozenset(), bound_s: float = BOUND_S
) -> pl.DataFrame:
    """The rows of `batsim_jobs`, in order of job id, of all facts of a replay. `log` has the columns job and
    estimate_s, in order of arrival."""
    jobs = FinishedJobs(log.select("job", requested_time="estimate_s"), Wanted.TABLE_AT_THE_END)
    jobs.add(FactColumns.of(facts, COLUMNS))
    return batsim_jobs(jobs.rest(), cut, bound_s=bound_s)


def batsim_jobs(
    finished: pl.DataFrame,
    cut: frozenset[int] = frozenset(),
    columns: Sequence[str] = (),
    bound_s: float = BOUND_S,
) -> pl.DataFrame:
    """One row per finished job (`FinishedJobs`): the columns of Batsim's jobs.csv, and bounded_slowdown
    (threshold `bound_s`); on nodes also partition and requested_gpus; the ids of the log, if jobs have other
    numbers; or only some `columns`. Times are seconds;
    the time in which a run was suspended is no execution time. The runs of the jobs `cut` were ended at their
    estimate."""
    found = _columns(cut, bound_s)
    if "requested_gpus" in finished.columns:
        found = {**found, "partition": pl.col("partition"), "requested_gpus": WITH_GPUS_OF_WHOLE_NODES}
    if LOG_ID in finished.columns:
        found = {**found, LOG_ID: pl.col(LOG_ID)}
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
        "stretch": stretch(ran),
        "allocated_resources": pl.col("machines"),
        "consumed_energy": pl.lit(-1),
        "metadata": pl.col("metadata").fill_null(""),
        "bounded_slowdown": bounded_slowdown(ran, bound_s),
    }
