"""Traces for people: facts as sentences, the timeline of a job, the first difference between two runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import polars.selectors as cs

from scheduler.messages import printable
from sil.outcome.jobs import ENDINGS, run_table
from sil.trace.facts import RUN, Fact
from sil.trace.held import MACHINES_AS_TEXT, intervals_in, node_set, request_of, shares_in, with_texts
from sil.trace.log_clock import LogClock, seconds_text
from sil.trace.log_ids import LOG_ID
from site_db.site_file.machine_names import fold

Row = dict[str, Any]

SHOWN = 12
"""The number of items shown of a list."""
NEXT = 3
"""The number of facts shown of each run from the first difference on."""
NOT_DECIDED = (Fact.DECISION_CHARGED, Fact.PASSED_OVER, Fact.JOB_MAPPED)
"""Facts that may differ between runs with the same decisions."""


@dataclass(frozen=True)
class RunningJob:
    job: int
    since_s: float
    where: str


@dataclass(frozen=True)
class Divergence:
    """The first `facts` facts of both runs are equal; `one` and `other` follow, empty where a trace ends.

    `waiting` are the jobs that had arrived and were neither refused nor running, in order of arrival;
    `running` are the running jobs, in order of start.
    """

    facts: int
    time_s: float
    waiting: tuple[int, ...]
    running: tuple[RunningJob, ...]
    one: tuple[Row, ...]
    other: tuple[Row, ...]


def divergence(one: pl.DataFrame, other: pl.DataFrame) -> Divergence | None:
    """The first difference between the facts of two runs (columns of a trace); None if they are equal.

    Scheduler names, decision times and wait reasons are ignored.
    """
    decided = ~pl.col("event").is_in(NOT_DECIDED)
    sides = [frame.filter(decided).drop(*RUN, LOG_ID, strict=False) for frame in (one, other)]
    n = min(map(len, sides))
    same = pl.all_horizontal(pl.col(name).eq_missing(pl.col(f"{name}_other")) for name in sides[0].columns)
    beside = sides[1].head(n).rename(lambda name: f"{name}_other")
    equal = pl.concat([sides[0].head(n), beside], how="horizontal").select(same.alias("same"))["same"]
    at = n if equal.all() else int(equal.arg_min() or 0)
    if at == len(sides[0]) == len(sides[1]):
        return None
    rests = [tuple(map(with_texts, _rows(side[at : at + NEXT]))) for side in sides]
    time_s = min(rest[0]["time_s"] for rest in rests if rest)
    waiting, running = _state(sides[0].head(at))
    return Divergence(at, time_s, waiting, running, rests[0], rests[1])


def _rows(facts: pl.DataFrame) -> Iterator[Row]:
    held = zip(intervals_in(facts["machines"]), shares_in(facts["shares"]), strict=True)
    for row, (machines, shares) in zip(facts.iter_rows(named=True), held, strict=True):
        yield row | {"machines": machines, "shares": shares}


NOT_COMPLETE = (Fact.RUN_LOST, Fact.RUN_PREEMPTED, Fact.RUN_ABANDONED, Fact.RUN_DISCARDED)
"""Facts after which a job waits again."""

_SENTENCES = {
    Fact.RUN_ENDED: "job {job} ends",
    Fact.RUN_STOPPED: "job {job} is stopped, and keeps what it has done",
    Fact.RUN_CONTINUED: "job {job} continues",
    Fact.RUN_LOST: "the run of job {job} is lost{lost}",
    Fact.RUN_PREEMPTED: "job {job} is preempted{lost}",
    Fact.ORDER_OVERTAKEN: "job {job} does not start on {where}, which is down",
    Fact.ORDER_REFUSED: "job {job} does not start on {where}: {detail}",
    Fact.RUN_ABANDONED: "the run of job {job} on {where} is given up, since its machine does not answer",
    Fact.RUN_DISCARDED: "a run of job {job} ends, which does not count",
    Fact.PROMISED: "job {job} is promised a turnaround of at most {expected_s:g} s{cost}",
    Fact.JOB_MAPPED: "job {job} is mapped to {where}, {detail}, estimated run time {expected_s:g} s",
    Fact.PASSED_OVER: "job {job} waits: {detail}",
    Fact.JOB_REFUSED: "refused: {detail}",
    Fact.JOB_MOVED: "job {job} leaves the queue of {where}: {detail}",
    Fact.JOB_INELIGIBLE: "job {job} is not eligible to run: {detail}",
    Fact.JOB_ELIGIBLE: "job {job} is eligible to run (it waited for {detail})",
    Fact.FAULT: "the run ends with a fault ({detail}): {message}",
}


def sentence(fact: Row, resources: Sequence[str] = ()) -> str:
    """A fact as a sentence, with the names of resources. Its machines are intervals or a text."""
    event, resource = Fact(fact["event"]), fact["resource"]
    job, detail = printable(str(fact.get(LOG_ID) or fact["job"])), fact["detail"]
    where = fact["machines"] if fact["machines"] is not None else resource
    if isinstance(where, tuple):
        where = node_set(where)
        if resources and resource is not None and resource < 0 and where:
            where = ",".join(fold(resources[n] for n in where))
    if resource is not None and 0 <= resource < len(resources):
        where = resources[resource]
    is_interrupted = event in (Fact.RUN_LOST, Fact.RUN_PREEMPTED) and fact["expected_s"] is not None
    lost = f"; {seconds_text(fact['expected_s'])} since its last checkpoint" if is_interrupted else ""
    if event == Fact.RUN_LOST and detail is not None:
        return f"the run of job {job} fails{lost}"
    if event in _SENTENCES:
        cost = "" if detail is None else f"; {detail}"
        return _SENTENCES[event].format(where=where, lost=lost, cost=cost, **{**fact, "job": job})
    if event == Fact.JOB_ARRIVED:
        requested = f"{fact['tasks']} nodes" if (fact["tasks"] or 1) > 1 else ""
        requested = requested if detail is None else str(request_of(detail))
        due = "" if fact["expected_s"] is None else f", to end within {fact['expected_s']:g} s"
        return f"job {job} arrives" + (f" and requests {requested}" if requested else "") + due
    if event == Fact.RUN_STARTED:
        estimate = "" if fact["expected_s"] is None else f", estimated run time {fact['expected_s']:g} s"
        chosen = "" if detail is None else f" in partition {printable(detail)}"
        return f"job {job} starts on {where}{chosen}{estimate}"
    rest = "" if detail is None else f" ({detail})"
    return f"{event.value.replace('_', ' ')} of job {job}{rest}"


def _state(facts: pl.DataFrame) -> tuple[tuple[int, ...], tuple[RunningJob, ...]]:
    waiting: dict[int, None] = {}
    running: dict[int, RunningJob] = {}
    columns = "time_s", "event", "job", "run", MACHINES_AS_TEXT, "resource"
    for fact in facts.select(columns).iter_rows(named=True):
        job, event = fact["job"], fact["event"]
        if event == Fact.JOB_ARRIVED:
            waiting[job] = None
        elif event == Fact.JOB_REFUSED:
            waiting.pop(job, None)
        elif event == Fact.RUN_STARTED:
            waiting.pop(job, None)
            where = fact["machines"] if fact["machines"] is not None else str(fact["resource"])
            running[fact["run"]] = RunningJob(job, fact["time_s"], where)
        elif event in ENDINGS:
            running.pop(fact["run"], None)
            if event != Fact.RUN_ENDED:
                waiting[job] = None
    return tuple(waiting), tuple(running.values())


def runs_of(facts: pl.DataFrame) -> Sequence[tuple[int, int, str]]:
    """The runs in a trace: point, replication and scheduler."""
    return facts.select(RUN).unique(maintain_order=True).rows()


@dataclass(frozen=True)
class JobTimeline:
    """`events` are pairs of time (s) and sentence. `overtaken_by` are the jobs that arrived later and started
    before the job's first start (or at all, if it never started), in order of start; none of a job that is
    refused."""

    events: tuple[tuple[float, str], ...]
    overtaken_by: tuple[int | str, ...]
    """The ids in the log of these jobs, where these are not their numbers."""
    waited_s: float | None
    """The seconds from its arrival, or from when it was eligible to run, to the start of its last run; lost
    and preempted runs count as waiting."""
    lost_s: float
    """The work that was lost with runs that are not the last one, in seconds."""
    suspended_s: float
    """How long its runs were suspended that are over."""
    has_reasons: bool
    """Whether the trace has the wait reasons and mappings of a job that was not refused."""

    def lines(self, clock: LogClock) -> Iterator[str]:
        """Lines for people: one for each event, the waiting time, and the jobs that overtook it. Of reasons
        that differ in priorities only, there are the first and the last."""
        rest = [_PRIORITY.sub("", text) for _, text in self.events]
        for k, (time_s, text) in enumerate(self.events):
            if 0 < k < len(rest) - 1 and rest[k - 1] == rest[k] == rest[k + 1]:
                continue
            seconds, *date = clock.text(time_s).split("  ")
            yield "  ".join([f"{seconds:>16}", *date, clock.sentence(text)])
        if self.waited_s is not None:
            yield f"Waiting time: {seconds_text(self.waited_s)}."
        if self.lost_s:
            yield f"Work lost with interrupted runs: {seconds_text(self.lost_s)}."
        if self.suspended_s:
            yield f"Suspended: {seconds_text(self.suspended_s)}."
        if self.overtaken_by:
            yield listed("Overtaken by", [f"job {printable(str(other))}" for other in self.overtaken_by])


def listed(title: str, items: Sequence[str]) -> str:
    """The first items of a list, and how many more there are."""
    more = f", and {len(items) - SHOWN:,} more" if len(items) > SHOWN else ""
    return f"{title}: {', '.join(items[:SHOWN]) or 'none'}{more}."


_PRIORITY = re.compile(r"priority [\d,]+ \([^)]*\); ", re.ASCII)
_JOB = re.compile(r"\bjob (\d+)\b", re.ASCII)


def _with_ids(own: pl.DataFrame, facts: pl.DataFrame) -> Iterator[Row]:
    """The facts of a job; reasons name others by their ids in the log."""
    if LOG_ID not in facts.columns:
        yield from _rows(own)
        return
    ids = {str(job): text for job, text in facts.select("job", LOG_ID).drop_nulls().unique().iter_rows()}
    for fact in _rows(own):
        if fact["event"] in (Fact.PASSED_OVER, Fact.PROMISED, Fact.JOB_REFUSED):
            fact["detail"] = _JOB.sub(lambda job: f"job {ids.get(job[1], job[1])}", fact["detail"] or "")
        yield fact


def timeline(facts: pl.DataFrame, job: int, resources: Sequence[str] = ()) -> JobTimeline | None:
    """The timeline of a job in one run (columns of a trace) on resources of these names; None for an unknown
    job."""
    own = facts.filter(pl.col("job") == job)
    if not len(own):
        return None
    events = tuple((row["time_s"], sentence(row, resources)) for row in _with_ids(own, facts))
    arrived = own.filter(pl.col("event") == Fact.JOB_ARRIVED)["time_s"].min()
    started = own.filter(pl.col("event") == Fact.RUN_STARTED)["time_s"].min()
    arrivals = facts.filter(pl.col("event") == Fact.JOB_ARRIVED).select(
        "job", cs.by_name(LOG_ID, require_all=False), arrived_s="time_s"
    )
    starts = (
        facts.filter(pl.col("event") == Fact.RUN_STARTED)
        .group_by("job", maintain_order=True)
        .agg(pl.col("time_s").first().alias("started_s"))
        .join(arrivals, on="job", how="inner", maintain_order="left")
    )
    later = (pl.col("arrived_s") > arrived) if arrived is not None else pl.lit(False)
    before = (pl.col("started_s") < started) if started is not None else pl.lit(True)
    is_refused = bool(own["event"].is_in([Fact.JOB_REFUSED]).any())
    name = LOG_ID if LOG_ID in facts.columns else "job"
    overtook = [] if is_refused else starts.filter(later & before)[name].to_list()
    tries = own.filter(pl.col("event").is_in([Fact.RUN_STARTED, *NOT_COMPLETE]))
    runs = arrived is not None and len(tries) > 0 and tries["event"][-1] == Fact.RUN_STARTED
    waits_from = own.filter(pl.col("event").is_in([Fact.JOB_ARRIVED, Fact.JOB_ELIGIBLE]))["time_s"].max()
    waited_s = float(tries["time_s"][-1]) - float(waits_from) if runs else None  # type: ignore[arg-type]
    lost_s, suspended_s = run_table(own).select(pl.sum("lost_s", "suspended_s")).row(0)
    return JobTimeline(
        events,
        tuple(overtook),
        waited_s,
        lost_s,
        suspended_s,
        is_refused or facts["event"].is_in([Fact.PASSED_OVER, Fact.JOB_MAPPED]).any(),
    )
