"""Sentences on what went wrong: jobs that were refused, or given up after failed runs (in the trace, both are
refused), and managers that crashed or gave up runs."""

from __future__ import annotations

import polars as pl

from scheduler.messages import counted
from sil.trace.facts import RUN, Fact

IS_FAILURE = (pl.col("event") == Fact.RUN_LOST) & pl.col("detail").is_not_null()
"""Whether a fact is a run that was lost because its job failed: it has a detail then."""
IF_RESUBMITTED = (
    "users would resubmit refused jobs with smaller requests, and these would wait, too: waits with and "
    "without refused jobs cannot be compared"
)


def given_up(facts: pl.DataFrame) -> pl.DataFrame:
    """The jobs that were given up after failed runs (columns of RUN, job), and the `reason`."""
    key = (*RUN, "job")
    refused = facts.filter(pl.col("event") == Fact.JOB_REFUSED).select(*key, reason="detail")
    return refused.join(facts.filter(IS_FAILURE), on=key, how="semi", maintain_order="left")


def refused_jobs(facts: pl.DataFrame) -> pl.DataFrame:
    """The facts that jobs were refused, without those that were given up after failed runs."""
    refused = facts.filter(pl.col("event") == Fact.JOB_REFUSED)
    return refused.join(given_up(facts), on=(*RUN, "job"), how="anti", maintain_order="left")


def _of_schedulers(facts: pl.DataFrame, **counts: pl.Expr) -> pl.DataFrame:
    """A row for each scheduler, in order of appearance."""
    return facts.group_by("scheduler", maintain_order=True).agg(**counts)


def _number_of(fact: Fact) -> pl.Expr:
    return (pl.col("event") == fact).sum()


def _by_scheduler(facts: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """Numbers of all arrived jobs, and of some of them, with the first reason."""
    arrived = _of_schedulers(facts, arrived=_number_of(Fact.JOB_ARRIVED))
    some = jobs.group_by("scheduler").agg(refused=pl.len(), reason=pl.first("reason"))
    counts = arrived.join(some, on="scheduler", how="left", maintain_order="left")
    return counts.with_columns(pl.col("refused").fill_null(0))


def refusals(facts: pl.DataFrame) -> pl.DataFrame:
    """One row per scheduler: numbers of arrived and refused jobs, and the first reason."""
    return _by_scheduler(facts, refused_jobs(facts).select("scheduler", reason="detail"))


def refusal_sentence(scheduler: str, arrived: int, refused: int, reason: str) -> str:
    """How many of the jobs that arrived were refused, and why the first one."""
    counts = "was refused, and counts" if refused == 1 else "were refused, and count"
    of_all = f"{refused:,} of {counted(arrived, 'job')}"
    return f"{scheduler}: {of_all} {counts} in no other metric; the first because {reason}"


def refusal_sentences(facts: pl.DataFrame) -> list[str]:
    """A sentence for each scheduler under which jobs were refused."""
    return [refusal_sentence(**row) for row in refusals(facts).filter(pl.col("refused") > 0).rows(named=True)]


def failure_sentences(facts: pl.DataFrame) -> list[str]:
    """A sentence for each scheduler under which jobs failed."""
    return [
        f"{scheduler}: {n:,} of {counted(arrived, 'job')} failed, and {'counts' if n == 1 else 'count'} in "
        f"no other metric of jobs; the first because {reason}"
        for scheduler, arrived, n, reason in _by_scheduler(facts, given_up(facts)).iter_rows()
        if n
    ]


def notes(facts: pl.DataFrame) -> list[str]:
    """Sentences on problems of the monitors of local load, then on managers that crashed, or gave up runs
    since machines did not answer."""
    is_refused = pl.col("event") == Fact.READING_REFUSED
    of_monitors = _of_schedulers(
        facts,
        refused=is_refused.sum(),
        silent=_number_of(Fact.MONITOR_SILENT),
        reason=pl.col("detail").filter(is_refused).first(),
    )
    of_managers = _of_schedulers(
        facts,
        crashes=_number_of(Fact.MANAGER_DOWN),
        abandoned=_number_of(Fact.RUN_ABANDONED),
        discarded=_number_of(Fact.RUN_DISCARDED),
    )
    found = []
    for scheduler, refused, silent, reason in of_monitors.iter_rows():
        if refused:
            ignored = f"{refused:,} readings of monitors were ignored"
            found.append(f"{scheduler}: {ignored}; the first because {reason}")
        if silent:
            found.append(
                f"{scheduler}: {silent:,} monitors never answered, over all runs; their nodes were "
                f"assumed to have no local load"
            )
    return found + [
        f"{scheduler}: the manager crashed {counted(crashes, 'time')}, and gave up "
        f"{counted(abandoned, 'run')} since a machine did not answer; of these, {discarded:,} ended and did "
        f"not count"
        for scheduler, crashes, abandoned, discarded in of_managers.iter_rows()
        if crashes or abandoned
    ]
