"""What must hold in the trace of a replayed log, whoever wrote it; whole columns at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from scheduler.model import JobId
from sil.outcome.invariants import (
    NO_JOB_LOST,
    NO_JOB_RUN_TWICE,
    TIME_NEVER_GOES_BACK,
    WHAT_IS_OVER_IS_OVER,
    Breach,
)
from sil.trace.facts import Fact

STARTS_AFTER_ARRIVAL = "starts-after-arrival"
NO_MORE_NODES_THAN_THERE_ARE = "no-more-nodes-than-there-are"


def first_breach_of_replay(trace: Path, processors: int) -> Breach | None:
    """The first invariant that a trace breaks, or None. That no node has two jobs is checked by the simulated
    machines with every order."""
    return next(_breaches(trace, processors), None)


def _breaches(trace: Path, processors: int) -> Iterator[Breach]:
    facts = pl.read_parquet(trace, columns=["time_s", "event", "job", "run", "tasks"])
    event = pl.col("event")
    times_s = facts["time_s"].to_numpy()
    if (np.diff(times_s) < 0).any():
        at = int((np.diff(times_s) < 0).argmax())
        yield Breach(TIME_NEVER_GOES_BACK, None, f"{times_s[at + 1]:.12g} s comes after {times_s[at]:.12g} s")
    arrived, started, ended, refused = (
        facts.filter(event == fact)
        for fact in (Fact.JOB_ARRIVED, Fact.RUN_STARTED, Fact.RUN_ENDED, Fact.JOB_REFUSED)
    )
    for job in started.filter(pl.col("job").is_duplicated())["job"].head(1):
        yield Breach(NO_JOB_RUN_TWICE, JobId(job), f"job {job} was started more than once")
    for job in ended.filter(pl.col("run").is_duplicated())["job"].head(1):
        yield Breach(WHAT_IS_OVER_IS_OVER, JobId(job), f"a run of job {job} ended more than once")
    early = started.join(arrived.select("job", arrived_s="time_s"), on="job", how="left").filter(
        pl.col("arrived_s").is_null() | (pl.col("arrived_s") > pl.col("time_s"))
    )
    for job in early["job"].head(1):
        yield Breach(STARTS_AFTER_ARRIVAL, JobId(job), f"job {job} was started before it arrived")
    never = ended.join(started, on="run", how="anti")
    for job, run in never.select("job", "run").head(1).iter_rows():
        yield Breach(WHAT_IS_OVER_IS_OVER, JobId(job), f"run {run} of job {job} ended and was never started")
    if not len(facts.filter(event == Fact.FAULT)):
        lost = arrived.join(ended, on="job", how="anti").join(refused, on="job", how="anti")
        for job in lost["job"].sort().head(1):
            yield Breach(NO_JOB_LOST, JobId(job), f"job {job} arrived, was not refused and never ended")
    killed = facts.filter(event == Fact.RUN_PREEMPTED)
    over = pl.concat([ended, killed]).join(
        started.select("run", "tasks"), on="run", how="inner", suffix="_held"
    )
    changes = pl.concat(
        [
            over.select("time_s", change=-pl.col("tasks_held").cast(pl.Int64)),
            started.select("time_s", change=pl.col("tasks").cast(pl.Int64)),
        ]
    ).sort("time_s", "change")
    at_once = changes["change"].cum_sum()
    if len(at_once) and int(at_once.max()) > processors:  # type: ignore[arg-type]
        at = int(at_once.arg_max() or 0)
        when = f"{changes['time_s'][at]:.12g} s"
        message = f"{at_once[at]} nodes are held at {when}; the machine has {processors}"
        yield Breach(NO_MORE_NODES_THAN_THERE_ARE, None, message)
