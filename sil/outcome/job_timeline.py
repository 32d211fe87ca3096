"""The timeline of one job: its events, and why it waited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from sil.outcome.trace_diff import sentence
from sil.trace.facts import Fact

EVENTS_OF_A_JOB = (
    Fact.JOB_ARRIVED,
    Fact.JOB_REFUSED,
    Fact.JOB_DESCRIBED,
    Fact.PASSED_OVER,
    Fact.JOB_MAPPED,
    Fact.PROMISED,
    Fact.RUN_STARTED,
    Fact.ORDER_OVERTAKEN,
    Fact.RUN_STOPPED,
    Fact.RUN_CONTINUED,
    Fact.RUN_PREEMPTED,
    Fact.RUN_LOST,
    Fact.RUN_ENDED,
    Fact.FAULT,
)


@dataclass(frozen=True)
class Timeline:
    """`events` are pairs of time (s) and sentence. `overtaken_by` are the jobs that arrived later and started
    before the job's first start (or at all, if it never started), in order of start."""

    events: tuple[tuple[float, str], ...]
    overtaken_by: tuple[int, ...]
    waited_s: float | None
    """From its arrival to the start of its last run; lost and preempted runs count as waiting."""
    has_reasons: bool
    """Whether the trace has wait reasons and mappings."""


def timeline(facts: pl.DataFrame, job: int, places: Sequence[str] = ()) -> Timeline | None:
    """The timeline of a job in one run (columns of a trace) on resources of these names; None for an unknown
    job."""
    own = facts.filter(
        (pl.col("job") == job) & pl.col("event").is_in([fact.value for fact in EVENTS_OF_A_JOB])
    )
    if not len(own):
        return None
    events = tuple((row["time_s"], sentence(row, places)) for row in own.iter_rows(named=True))
    arrived = own.filter(pl.col("event") == Fact.JOB_ARRIVED)["time_s"].min()
    started = own.filter(pl.col("event") == Fact.RUN_STARTED)["time_s"].min()
    arrivals = facts.filter(pl.col("event") == Fact.JOB_ARRIVED).select("job", arrived_s="time_s")
    starts = (
        facts.filter(pl.col("event") == Fact.RUN_STARTED)
        .group_by("job", maintain_order=True)
        .agg(pl.col("time_s").first().alias("started_s"))
        .join(arrivals, on="job", how="inner", maintain_order="left")
    )
    later = (pl.col("arrived_s") > arrived) if arrived is not None else pl.lit(False)
    before = (pl.col("started_s") < started) if started is not None else pl.lit(True)
    overtook = starts.filter(later & before)["job"].to_list()
    tries = own.filter(pl.col("event").is_in([Fact.RUN_STARTED, Fact.RUN_LOST, Fact.RUN_PREEMPTED]))
    runs = arrived is not None and len(tries) > 0 and tries["event"][-1] == Fact.RUN_STARTED
    waited_s = float(tries["time_s"][-1]) - float(arrived) if runs else None  # type: ignore[arg-type]
    return Timeline(
        events,
        tuple(overtook),
        waited_s,
        facts["event"].is_in([Fact.PASSED_OVER.value, Fact.JOB_MAPPED.value]).any(),
    )
