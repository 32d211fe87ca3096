"""Metrics: one number per run of the harness, computed from the trace."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from scheduler.errors import UserError
from sil.trace.facts import RUN, Fact, one_row_per_machine
from sil.trace.tables import RunTables


@dataclass(frozen=True, slots=True)
class Metric:
    """What a number means and how it is shown."""

    key: str
    title: str
    unit: str
    digits: int
    more_is_better: bool = False

    @property
    def label(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title


METRICS = (
    Metric("sum_job_times", "Sum of job times", "s", 0),
    Metric("mean_turnaround", "Mean turnaround", "s", 1),
    Metric("mean_waiting", "Mean waiting time", "s", 1),
    Metric("mean_bounded_slowdown", "Mean bounded slowdown", "", 3),
    Metric("makespan", "Makespan", "s", 1),
    Metric("utilisation", "Utilisation", "%", 2, more_is_better=True),
    Metric("mean_mpl", "Parallel tasks on a node in use", "", 2),
    Metric("parallel_share", "Jobs run in parallel", "%", 1, more_is_better=True),
    Metric("stops", "Stops for lack of memory", "", 1),
    Metric("local_slowdown", "Slowdown of local users", "", 3),
    Metric("tight_share", "Local users' time with too little CPU", "%", 2),
    Metric("promised_share", "Jobs promised their limit", "%", 1, more_is_better=True),
    Metric("kept_share", "Promises kept", "%", 1, more_is_better=True),
    Metric("refused_share", "Jobs refused", "%", 1),
    Metric("decision_time", "Decision time, total", "ms", 2),
)
"""Of all jobs of a run that were not refused. Slowdown is bounded with a threshold of 10 s. Makespan: first
arrival to last end. Utilisation: share of machine-seconds within the makespan that are held by runs, lost
ones included. Decision time is measured, all others are simulated. Of shared nodes only: stops of runs, and
how local users fared while active, on average over nodes (`sil.world.machines.time_shared.LocalResponse`;
the slowdown over those where they got anything);
where jobs ask for limits of their turnaround, how many were promised theirs, and of these, how many kept
it."""

OF_SHARED_NODES = ("mean_mpl", "stops", "local_slowdown", "tight_share", "promised_share", "kept_share")


class UnknownMetric(UserError):
    """There is no metric of that key. The message is one sentence for the user."""


def metric(key: str) -> Metric:
    """The metric of that key. Raises UnknownMetric."""
    for m in METRICS:
        if m.key == key:
            return m
    raise UnknownMetric(f"there is no metric '{key}'; there are {', '.join(m.key for m in METRICS)}")


def run_metrics(tables: RunTables, jobs: pl.DataFrame, n_machines: int) -> pl.DataFrame:
    """One row per run that ended without a fault: point, replication, scheduler, and a column per metric."""
    facts = tables.facts
    turnaround, waiting = pl.col("turnaround_time"), pl.col("waiting_time")
    makespan = pl.col("finish_time").max() - pl.col("submission_time").min()
    of_jobs = jobs.group_by(RUN).agg(
        sum_job_times=turnaround.sum(),
        mean_turnaround=turnaround.mean(),
        mean_waiting=waiting.mean(),
        mean_bounded_slowdown=pl.col("bounded_slowdown").mean(),
        makespan=makespan,
        parallel_share=100.0 * pl.col("parallel").mean(),
    )
    arrived, was_refused = pl.col("event") == Fact.JOB_ARRIVED, pl.col("event") == Fact.JOB_REFUSED
    of_arrivals = facts.group_by(RUN).agg(refused_share=100.0 * was_refused.sum() / arrived.sum())
    held = held_machines(facts)
    held_s = held.group_by(RUN).agg(held_s=((pl.col("until_s") - pl.col("from_s")) * pl.col("tasks")).sum())
    on_shared_nodes = bool((jobs["resource"] < 0).any())
    if not on_shared_nodes:  # a machine carries one run at a time
        held_s = held_s.with_columns(busy_s=pl.col("held_s"), mean_mpl=None, stops=None)
    else:
        stops = facts.group_by(RUN).agg(stops=(pl.col("event") == Fact.RUN_STOPPED).sum())
        held_s = (
            held_s.join(_busy(held), on=RUN)
            .join(stops, on=RUN)
            .with_columns(mean_mpl=pl.col("held_s") / pl.col("busy_s"))
        )
    fared = tables.local_users.group_by(RUN).agg(
        local_slowdown=pl.col("slowdown").filter(pl.col("slowdown").is_finite()).mean(),
        tight_share=100.0 * pl.col("tight_share").mean(),
    )
    promised = _promised(facts, jobs)
    decided = tables.timings.group_by(RUN).agg(decision_time=1e3 * pl.col("wall_s").sum())
    return (
        of_arrivals.join(of_jobs, on=RUN, how="left")
        .join(held_s, on=RUN, how="left")
        .join(fared, on=RUN, how="left")
        .join(promised, on=RUN, how="left")
        .join(decided, on=RUN, how="left")
        .join(faults(facts), on=RUN, how="anti")
        .with_columns(utilisation=100.0 * pl.col("busy_s") / (n_machines * pl.col("makespan")))
        .select(*RUN, *(m.key for m in METRICS))
        .sort(RUN)
    )


def held_machines(facts: pl.DataFrame) -> pl.DataFrame:
    """One row per attempt at a job that is over: its machines (`tasks` of them), `from_s`, `until_s` and its
    `ending`."""
    endings = (Fact.RUN_ENDED, Fact.RUN_PREEMPTED, Fact.RUN_LOST)
    started = facts.filter(pl.col("event") == Fact.RUN_STARTED).select(
        *RUN, "job", "run", "resource", "machines", "tasks", pl.col("time_s").alias("from_s")
    )
    over = facts.filter(pl.col("event").is_in([fact.value for fact in endings])).select(
        *RUN, "run", pl.col("time_s").alias("until_s"), pl.col("event").alias("ending")
    )
    return started.join(over, on=(*RUN, "run"), how="inner", maintain_order="left")


def _busy(held: pl.DataFrame) -> pl.DataFrame:
    """`busy_s` of each run of the harness: node-seconds in which a node was held by at least one run."""
    node = (*RUN, "machines")
    intervals = one_row_per_machine(held).sort(*node, "from_s")
    covered_s = pl.col("until_s").cum_max().shift(1).over(node)
    begins_s = pl.max_horizontal(pl.col("from_s"), covered_s)
    new_s = (pl.col("until_s") - begins_s).clip(lower_bound=0.0)
    return intervals.with_columns(new_s=new_s).group_by(RUN).agg(busy_s=pl.col("new_s").sum())


def _promised(facts: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """Of each run of the harness, where anything was promised in any: `promised_share` of the jobs that were
    not refused; and of those, `kept_share` (null where nothing was promised)."""
    limits = facts.filter(pl.col("event") == Fact.PROMISED).select(
        *RUN, pl.col("job").alias("job_id"), pl.col("expected_s").alias("limit_s")
    )
    if limits.is_empty():
        return pl.DataFrame(schema={**{name: facts.schema[name] for name in RUN}, **_PROMISES})
    kept = pl.col("turnaround_time") <= pl.col("limit_s")
    of_promises = (
        limits.join(jobs, on=(*RUN, "job_id"), how="left")
        .group_by(RUN)
        .agg(promised=pl.len(), kept_share=100.0 * kept.fill_null(False).mean())
    )
    arrived, refused = pl.col("event") == Fact.JOB_ARRIVED, pl.col("event") == Fact.JOB_REFUSED
    accepted = facts.group_by(RUN).agg(accepted=arrived.sum() - refused.sum())
    share = 100.0 * pl.col("promised").fill_null(0) / pl.col("accepted")
    return (
        accepted.join(of_promises, on=RUN, how="left")
        .with_columns(promised_share=share)
        .select(*RUN, *_PROMISES)
    )


_PROMISES = {"promised_share": pl.Float64, "kept_share": pl.Float64}


def monitor_notes(facts: pl.DataFrame) -> list[str]:
    """What was amiss with the monitors of local load, a sentence each."""
    notes = []
    amiss = facts.filter(pl.col("event").is_in([Fact.READING_REFUSED.value, Fact.MONITOR_SILENT.value]))
    for (scheduler,), of_one in amiss.group_by("scheduler", maintain_order=True):
        untrue = of_one.filter(pl.col("event") == Fact.READING_REFUSED)
        silent = of_one.filter(pl.col("event") == Fact.MONITOR_SILENT).height
        if len(untrue):
            notes.append(
                f"{scheduler}: {len(untrue):,} readings of monitors were left aside; the first because "
                f"{untrue['detail'][0]}"
            )
        if silent:
            notes.append(
                f"{scheduler}: {silent:,} monitors never answered, summed over the runs; no local load was "
                f"assumed on their nodes"
            )
    return notes


def refusals(facts: pl.DataFrame) -> pl.DataFrame:
    """One row per scheduler: how many jobs arrived, how many were refused, and the first reason."""
    reasons = pl.col("detail").filter(pl.col("event") == Fact.JOB_REFUSED)
    arrivals = (pl.col("event") == Fact.JOB_ARRIVED).sum()
    return facts.group_by("scheduler", maintain_order=True).agg(
        arrived=arrivals, refused=reasons.len(), reason=reasons.first()
    )


def faults(facts: pl.DataFrame) -> pl.DataFrame:
    """One row per run that ended in a fault: rule, job, time_s and message."""
    return facts.filter(pl.col("event") == Fact.FAULT).select(
        *RUN, "time_s", "job", pl.col("detail").alias("rule"), "message"
    )
