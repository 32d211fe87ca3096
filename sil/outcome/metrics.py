"""Metrics, each defined once by name: a number for a run of the harness, or for a replayed log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import nan

import polars as pl

from scheduler import UserError
from sil.outcome.backlog import backlog_metrics
from sil.outcome.jobs import failed_job_table, run_table, with_gpus
from sil.outcome.refused_and_failed import given_up
from sil.outcome.statistics import quantile
from sil.trace.facts import RUN, Fact, RunDescription, RunTables
from sil.trace.held import one_row_per_machine


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """What a number means and how it is shown; `of_jobs` computes it from the table of jobs, if it can."""

    key: str
    title: str
    unit: str
    digits: int
    more_is_better: bool = False
    of_jobs: pl.Expr | None = None

    @property
    def label(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title


_QUANTITIES = {
    "turnaround": ("turnaround_time", "turnaround", "s", 1),
    "waiting": ("waiting_time", "waiting time", "s", 1),
    "bounded_slowdown": ("bounded_slowdown", "bounded slowdown", "", 3),
}
"""Column of the table of jobs, name, unit and digits."""
_SUMMARIES = {
    "mean": ("Mean {}", pl.Expr.mean),
    "median": ("Median {}", lambda values: quantile(values, 0.5)),
    "p95": ("95th percentile of {}", lambda values: quantile(values, 0.95)),
    "max": ("Maximum {}", pl.Expr.max),
}
JOB_METRICS = {
    f"{summary}_{quantity}": Metric(
        f"{summary}_{quantity}", title.format(name), unit, digits, of_jobs=summarised(pl.col(column))
    )
    for quantity, (column, name, unit, digits) in _QUANTITIES.items()
    for summary, (title, summarised) in _SUMMARIES.items()
}
"""Mean, median, 95th percentile and maximum of turnaround, waiting time and bounded slowdown. Quantiles are
those of the inverted CDF: the smallest value not exceeded by that share of jobs."""

_MAKESPAN_S = pl.col("finish_time").max() - pl.col("submission_time").min()
MAKESPAN = Metric("makespan", "Makespan", "s", 1, of_jobs=_MAKESPAN_S)
UTILISATION = Metric("utilisation", "Utilisation", "%", 2, more_is_better=True)

GPU_UTILISATION = Metric("gpu_utilisation", "Utilisation of GPUs", "%", 2, more_is_better=True)
GPU_WAITING = Metric(
    "gpu_waiting",
    "Waiting of requested GPUs",
    "GPU h",
    1,
    of_jobs=(pl.col("requested_gpus") * pl.col("waiting_time")).sum() / 3600.0,
)
OF_GPUS = (GPU_UTILISATION.key, GPU_WAITING.key)
"""Metrics that exist only where nodes have GPUs. The waiting is the sum, over jobs, of waiting time times
requested GPUs."""

_AREA = pl.col("tasks") * pl.col("execution_time")
OF_REQUESTED = (
    Metric(
        "per_processor_slowdown_mean",
        "Mean bounded slowdown per processor",
        "",
        3,
        of_jobs=pl.col("per_processor").mean(),
    ),
    Metric(
        "weighted_waiting_time_mean",
        "Mean waiting time, weighted by processor-seconds",
        "s",
        1,
        of_jobs=(_AREA * pl.col("waiting_time")).sum() / _AREA.sum(),
    ),
)
"""Metrics of jobs that request processors, or cores."""
DETAILS = (
    *OF_REQUESTED,
    Metric("backfilled_share", "Jobs backfilled", "%", 1, more_is_better=True),
    Metric("loss_of_capacity", "Loss of capacity", "%", 2),
    Metric("utilisation_of_up", "Utilisation of what is up", "%", 2, more_is_better=True),
)
"""Metrics that are not in printed tables. The last one exists only where something was down, the others where
jobs request processors, or cores."""

ROUNDING_S = 1e-6
"""A job that ends later than its deadline by no more than this has kept it."""
_LATE_S = pl.col("tardiness")
OF_DEADLINES = (
    Metric("missed_share", "Deadlines missed", "%", 1, of_jobs=100.0 * (_LATE_S > ROUNDING_S).mean()),
    Metric("mean_tardiness", "Mean tardiness", "s", 1, of_jobs=_LATE_S.mean()),
    Metric("max_tardiness", "Maximum tardiness", "s", 1, of_jobs=_LATE_S.max()),
)
"""Metrics of the jobs with a deadline: a job is late by its tardiness, which is 0 if it ends in time."""

OF_PERIODS = (
    Metric("missed_periods", "Periods missed", "%", 2),
    Metric("period_tardiness", "Mean tardiness of periods", "ms", 1),
    Metric("max_period_tardiness", "Maximum tardiness of periods", "ms", 0),
)
"""Metrics of periodic jobs, over the periods of all their tasks."""

INTERRUPTED = (
    Metric("interrupted_runs", "Interrupted runs", "", 0),
    Metric("lost_hours", "Lost work", "processor h", 1),
)
"""Metrics that exist only where runs were preempted or lost: how many, and what these had done since their
last checkpoint, or their start."""

METRICS = (
    Metric("sum_job_times", "Total flow time", "s", 0, of_jobs=pl.col("turnaround_time").sum()),
    JOB_METRICS["mean_turnaround"],
    JOB_METRICS["mean_waiting"],
    JOB_METRICS["mean_bounded_slowdown"],
    MAKESPAN,
    UTILISATION,
    GPU_UTILISATION,
    GPU_WAITING,
    Metric("mean_mpl", "Parallel tasks on a node in use", "", 2),
    Metric("parallel_share", "Jobs run in parallel", "%", 1, True, 100.0 * pl.col("parallel").mean()),
    Metric("stops", "Stops for lack of memory", "", 1),
    Metric("local_slowdown", "Slowdown of local users", "", 3),
    Metric("tight_share", "Local users' time with too little CPU", "%", 2),
    Metric("response_time", "Response time of local users", "ms", 0),
    Metric("response_time_95", "Response time of local users, 95 %", "ms", 0),
    Metric("late_share", "Responses to local users that miss their deadline", "%", 2),
    Metric("promised_share", "Jobs promised their limit", "%", 1, more_is_better=True),
    Metric("kept_share", "Promises kept", "%", 1, more_is_better=True),
    *OF_DEADLINES,
    *OF_PERIODS,
    Metric("refused_share", "Jobs refused", "%", 1),
    Metric("failed_share", "Jobs failed", "%", 1),
    *INTERRUPTED,
    Metric("decision_time", "Decision time, total", "ms", 2),
    *DETAILS,
)
"""The metrics of an experiment, over all jobs of a run that were not refused and did not fail.

Total flow time is the papers' "sum of job times". The makespan is
from the first arrival to the last end. Utilisation is the share of machine-seconds within the makespan that
runs hold, lost runs included. Decision time is measured, all other metrics are simulated. On time-shared
nodes only: parallel tasks per node in use, stops of runs, and how local users fared while active, on average
over nodes (`sil.world.machines.time_shared.LocalResponse`). Where jobs ask for limits of their turnaround:
the share that was promised its limit, and of these the share that kept it; and how late jobs were.
"""

BY_KEY = {m.key: m for m in METRICS}
PLAN_METRICS = {
    m.key: m
    for m in (
        *(JOB_METRICS[f"{summary}_{name}"] for name in _QUANTITIES for summary in ("mean", "p95")),
        MAKESPAN,
        UTILISATION,
        GPU_UTILISATION,
        GPU_WAITING,
        *OF_REQUESTED,
    )
}
"""The metrics that can be a goal of a plan; those of GPUs only where there are some, those of requested
processors only where jobs request some."""

REFUSED = (
    Metric("refused_jobs", "Refused jobs", "", 0),
    Metric("refused_hours", "Processor-hours of refused jobs", "", 0),
)
"""Metrics of a replayed log in which jobs were refused, which count in no other metric."""
REPLAY_METRICS = {
    **{
        f"{_QUANTITIES[name][0]}_{summary}": JOB_METRICS[f"{summary}_{name}"]
        for name in ("waiting", "turnaround", "bounded_slowdown")
        for summary in _SUMMARIES
    },
    "utilisation": UTILISATION,
    GPU_UTILISATION.key: GPU_UTILISATION,
    "makespan": MAKESPAN,
    **{m.key: m for m in OF_DEADLINES},
    **{metric.key: metric for metric in (*DETAILS, *INTERRUPTED, *REFUSED)},
}
"""The metrics of a replayed log, by their names in summary.json; that of GPUs only if there are GPUs."""
OF_SOME_REPLAYS = (GPU_UTILISATION, *OF_DEADLINES, *DETAILS, *INTERRUPTED, *REFUSED)

OF_ALL_SITES = (
    *("sum_job_times", "mean_turnaround", "mean_waiting", "mean_bounded_slowdown", "makespan", "utilisation"),
    *("parallel_share", "refused_share", "decision_time"),
)
"""Metrics that are shown even if no run has them."""


_ARRIVED, _REFUSED = ((pl.col("event") == fact).sum() for fact in (Fact.JOB_ARRIVED, Fact.JOB_REFUSED))
"""Numbers of jobs, from facts."""
_PROMISES = {"promised_share": pl.Float64, "kept_share": pl.Float64}


def metric(key: str, metrics: Mapping[str, Metric] = BY_KEY) -> Metric:
    """The metric of that key, or name. Raises UserError."""
    if key not in metrics:
        raise UserError(f"unknown metric '{key}'; expected one of {', '.join(metrics)}")
    return metrics[key]


def replay_metric_named(name: str) -> str:
    """The name in REPLAY_METRICS; a quantity alone, like `waiting_time`, stands for its mean. Raises
    UserError."""
    of_mean = f"{name}_mean"
    found = of_mean if of_mean in REPLAY_METRICS else name
    metric(found, REPLAY_METRICS)
    return found


def metric_of_jobs(key: str, jobs: pl.DataFrame, runs: pl.DataFrame, capacity: int, gpus: int = 0) -> float:
    """A metric of PLAN_METRICS of `jobs` (a table of jobs). NaN without jobs.

    Utilisation is that of `runs` (columns tasks, from_s, until_s), of which `capacity` tasks are possible at
    a time; that of GPUs (column requested_gpus) is 0 without GPUs.
    """
    if not len(jobs):
        return nan
    if key in (UTILISATION.key, GPU_UTILISATION.key):
        if key == GPU_UTILISATION.key:
            capacity, runs = gpus, runs.with_columns(tasks="requested_gpus") if gpus else runs
        if not capacity:
            return 0.0
        begins_s, ends_s = jobs.select(pl.col("submission_time").min(), pl.col("finish_time").max()).row(0)
        within_s = pl.col("until_s").clip(begins_s, ends_s) - pl.col("from_s").clip(begins_s, ends_s)
        busy_s = float(runs.select((within_s * pl.col("tasks")).sum()).item())
        return 100.0 * busy_s / (capacity * float(ends_s - begins_s))
    summary, _, quantity = key.partition("_")
    if summary == "mean":  # NumPy and Polars differ in the last digit
        column, *_ = _QUANTITIES[quantity]
        return float(jobs[column].to_numpy().mean())
    return float(jobs.select(PLAN_METRICS[key].of_jobs).item())


def run_metrics(tables: RunTables, jobs: pl.DataFrame, description: RunDescription) -> pl.DataFrame:
    """One row per run that ended without a fault: point, replication, scheduler, and a column per metric."""
    facts = tables.facts
    of_jobs = jobs.group_by(RUN).agg(
        **{m.key: m.of_jobs for m in METRICS if m.of_jobs is not None and m.key not in OF_GPUS}
    )
    if not description.cores:
        of_jobs = of_jobs.with_columns(**{m.key: pl.lit(None, pl.Float64) for m in OF_REQUESTED})
    counts = _counts(facts)
    spans = jobs.group_by(RUN).agg(
        begins_s=pl.col("submission_time").min(), ends_s=pl.col("finish_time").max()
    )
    # Jobs that fail may run longer than to the last end.
    within = {name: pl.col(name).clip(pl.col("begins_s"), pl.col("ends_s")) for name in ("from_s", "until_s")}
    runs = run_table(facts).join(spans, on=RUN, maintain_order="left").with_columns(**within)
    of_interrupted = {
        "interrupted_runs": (pl.col("ending") != Fact.RUN_ENDED).sum().cast(pl.Float64),
        "lost_hours": (pl.col("lost_s") * pl.col("tasks")).sum() / 3_600.0,
    }
    if (runs["ending"] == Fact.RUN_ENDED).all():
        of_interrupted = dict.fromkeys(of_interrupted, pl.lit(None, pl.Float64))
    held_s = runs.group_by(RUN).agg(
        held_s=((pl.col("until_s") - pl.col("from_s")) * pl.col("tasks")).sum(), **of_interrupted
    )
    backlog = backlog_metrics(
        facts, spans.join(held_s.rename({"held_s": "computing_s"}), on=RUN), description
    )
    if description.shared_cluster is None:  # a machine, or a core, carries one run at a time
        held_s = held_s.with_columns(busy_s=pl.col("held_s"), mean_mpl=None, stops=None)
    else:
        stops = facts.group_by(RUN).agg(stops=(pl.col("event") == Fact.RUN_STOPPED).sum())
        mean_mpl = pl.col("held_s") / pl.col("busy_s")
        held_s = held_s.join(_busy(runs), on=RUN).join(stops, on=RUN).with_columns(mean_mpl=mean_mpl)
    local_users = tables.local_users.group_by(RUN).agg(
        local_slowdown=pl.col("slowdown").filter(pl.col("slowdown").is_finite()).mean(),
        tight_share=100.0 * pl.col("tight_share").mean(),
        response_time=1e3 * pl.col("response_s").mean(),
        response_time_95=1e3 * pl.col("response_95_s").mean(),
        late_share=100.0 * pl.col("late_share").mean(),
    )
    n_periods = pl.col("periods").sum()
    periods = tables.periods.group_by(RUN).agg(
        missed_periods=100.0 * pl.col("missed").sum() / n_periods,
        period_tardiness=1e3 * (pl.col("mean_tardiness_s") * pl.col("periods")).sum() / n_periods,
        max_period_tardiness=1e3 * pl.col("max_tardiness_s").max(),
    )
    decided = tables.timings.group_by(RUN).agg(decision_time=1e3 * pl.col("wall_s").sum())
    any_failed = bool(counts["failed"].sum())
    found = counts.select(
        *RUN,
        refused_share=100.0 * pl.col("refused") / pl.col("arrived"),
        failed_share=100.0 * pl.col("failed") / pl.col("arrived") if any_failed else pl.lit(None, pl.Float64),
    ).join(faults(facts), on=RUN, how="anti")
    promised, of_gpus = _promised(facts, jobs, counts), _of_gpus(facts, jobs, runs, description)
    for more in (of_jobs, held_s, local_users, periods, promised, backlog, decided, of_gpus):
        found = found.join(more, on=RUN, how="left")
    utilisation = 100.0 * pl.col("busy_s") / (description.capacity * pl.col("makespan"))
    return found.with_columns(utilisation=utilisation).select(*RUN, *BY_KEY).sort(RUN)


def _counts(facts: pl.DataFrame) -> pl.DataFrame:
    failed = given_up(facts).group_by(RUN).agg(failed=pl.len())
    counts = facts.group_by(RUN).agg(arrived=_ARRIVED, given_up=_REFUSED).join(failed, on=RUN, how="left")
    n_failed = pl.col("failed").fill_null(0)
    return counts.select(*RUN, "arrived", refused=pl.col("given_up") - n_failed, failed=n_failed)


def _of_gpus(
    facts: pl.DataFrame, jobs: pl.DataFrame, runs: pl.DataFrame, description: RunDescription
) -> pl.DataFrame:
    """The metrics of GPUs of each run of the harness, lost and failed runs included; null where there are
    none."""
    gpus = description.gpus
    if not gpus:
        return jobs.select(RUN).unique().with_columns(**dict.fromkeys(OF_GPUS, pl.lit(None, pl.Float64)))
    held_s = (pl.col("requested_gpus") * (pl.col("until_s") - pl.col("from_s"))).sum()
    failed = failed_job_table(facts, description.first_parallel).select(jobs.columns)
    of_runs = with_gpus(runs, pl.concat([jobs, failed])).group_by(RUN).agg(held_s=held_s)
    of_jobs = jobs.group_by(RUN).agg(makespan_s=_MAKESPAN_S, gpu_waiting=GPU_WAITING.of_jobs)
    return of_jobs.join(of_runs, on=RUN).select(
        *RUN, "gpu_waiting", gpu_utilisation=100.0 * pl.col("held_s") / (gpus * pl.col("makespan_s"))
    )


def _busy(runs: pl.DataFrame) -> pl.DataFrame:
    """`busy_s` of each run of the harness: node-seconds in which a node was held by at least one run."""
    node = (*RUN, "machines")
    intervals = one_row_per_machine(runs).sort(*node, "from_s")
    covered_s = pl.col("until_s").cum_max().shift(1).over(node)
    begins_s = pl.max_horizontal(pl.col("from_s"), covered_s)
    new_s = (pl.col("until_s") - begins_s).clip(lower_bound=0.0)
    return intervals.with_columns(new_s=new_s).group_by(RUN).agg(busy_s=pl.col("new_s").sum())


def _promised(facts: pl.DataFrame, jobs: pl.DataFrame, counts: pl.DataFrame) -> pl.DataFrame:
    """For each run of the harness, where anything was promised in any: `promised_share` of the jobs that were
    not refused; and of those, `kept_share` (null where nothing was promised)."""
    promises = facts.filter(pl.col("event") == Fact.PROMISED).unique((*RUN, "job"), maintain_order=True)
    limits = promises.select(*RUN, pl.col("job").alias("job_id"), pl.col("expected_s").alias("limit_s"))
    if limits.is_empty():
        return pl.DataFrame(schema={**{name: facts.schema[name] for name in RUN}, **_PROMISES})
    kept = pl.col("turnaround_time") <= pl.col("limit_s")
    of_promises = (
        limits.join(jobs, on=(*RUN, "job_id"), how="left")
        .group_by(RUN)
        .agg(promised=pl.len(), kept_share=100.0 * kept.fill_null(False).mean())
    )
    accepted = counts.select(*RUN, accepted=pl.col("arrived") - pl.col("refused"))
    share = 100.0 * pl.col("promised").fill_null(0) / pl.col("accepted")
    return (
        accepted.join(of_promises, on=RUN, how="left")
        .with_columns(promised_share=share)
        .select(*RUN, *_PROMISES)
    )


def why_absent(description: RunDescription) -> Iterator[tuple[Metric, str]]:
    """Why metrics of DETAILS are not there, if they are not."""
    no_queue = "jobs are mapped to machines, and request no processors"
    if description.shared_cluster is not None:
        no_queue = "runs share the nodes, and occupy no processors"
    for m in DETAILS[:-1]:
        yield m, "no job ran to its end" if description.cores else no_queue
    yield DETAILS[-1], no_queue if description.shared_cluster is not None else "nothing was down"


def faults(facts: pl.DataFrame) -> pl.DataFrame:
    """One row per run that ended in a fault: rule, job, time_s and message."""
    return facts.filter(pl.col("event") == Fact.FAULT).select(
        *RUN, "time_s", "job", pl.col("detail").alias("rule"), "message"
    )
