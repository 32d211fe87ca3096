"""What the facts of a replay say about its log: the jobs, their statistics, and what went wrong."""

from __future__ import annotations

import polars as pl

from sil.outcome.batsim_tables import jobs_in
from sil.outcome.invariants import LONG, Capacity, first_breach
from sil.outcome.jobs import with_gpus_of_whole_nodes
from sil.outcome.metrics import faults, refusal_sentences, replay_metrics
from sil.trace.facts import Fact
from sil.workload.job_log import JobLog


def jobs_of(log: JobLog, facts: pl.LazyFrame) -> pl.DataFrame:
    """The table of jobs.csv: the columns of `sil.outcome.batsim_tables.jobs_in` without gpus_had; on nodes
    also partition and requested_gpus."""
    jobs = jobs_in(facts, log.jobs, log.cut)
    if log.cluster is not None:
        jobs = jobs.join(log.requested, on="job_id", how="left", maintain_order="left")
        jobs = with_gpus_of_whole_nodes(jobs)
    return jobs.drop("gpus_had")


def fault_in(facts: pl.DataFrame | pl.LazyFrame, log: JobLog, scheduler: str, long: int = LONG) -> str | None:
    """A sentence on the rule that the scheduler broke, else on the first broken invariant; None if all is
    well. `long` is that of `first_breach`."""
    ended = facts.lazy().filter(pl.col("event") == Fact.FAULT).collect()
    for time_s, rule, message in faults(ended).select("time_s", "rule", "message").iter_rows():
        return f"{scheduler} broke the rule {rule} at {time_s:.12g} s: {message}"
    if (breach := first_breach(facts, _capacity(log), long)) is not None:
        return f"{scheduler}: the trace breaks the invariant {breach.rule}: {breach.message}"
    return None


def refusal_in(facts: pl.DataFrame | pl.LazyFrame) -> str | None:
    """A sentence on the jobs that were refused; None if none was."""
    facts = facts.lazy()
    # Most replays refuse no job, which takes less time to see than it takes to count.
    if facts.filter(pl.col("event") == Fact.JOB_REFUSED).head(1).collect().is_empty():
        return None
    (sentence,) = refusal_sentences(facts.select("scheduler", "event", "detail").collect())
    return sentence


def statistics_of(jobs: pl.DataFrame, log: JobLog) -> dict[str, float]:
    """The metrics of `sil.outcome.metrics.REPLAY_METRICS`; none without jobs."""
    return replay_metrics(jobs, log.processors, 0 if log.cluster is None else log.cluster.gpus)


def _capacity(log: JobLog) -> Capacity:
    if log.cluster is None:
        return Capacity(log.processors)
    nodes = tuple(log.cluster.nodes.values())
    return Capacity(len(nodes), nodes=nodes, site_resources=log.cluster.site_resources)
