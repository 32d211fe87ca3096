"""The facts of runs as jobs with their whole runs, for the site database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from scheduler.model import Site
from sil.outcome.trace import RUN, Fact
from site_db import store
from site_db.jobs.records import JobRecord, JobState, Source, SourceKind
from site_db.jobs.writer import JobWriter
from site_db.sites import SiteReader
from site_db.states import Seen, StateWriter


def batches(
    facts: pl.DataFrame, site: Site, experiment: str, fingerprint: str
) -> Iterator[tuple[Source, Sequence[JobRecord]]]:
    """The jobs of each run of the harness, in order of its facts, with the source that stands for the run."""
    for source, of_run in _runs_of_the_harness(facts, experiment, fingerprint):
        yield source, _jobs(of_run, site)


def write_results(database: Path, facts: pl.DataFrame, site: Site, experiment: str, fingerprint: str) -> None:
    """Add all jobs, their whole runs, what was predicted of them and what went down and came back to the
    database, in one transaction."""
    engine = store.open_file(database)
    with store.changing(engine) as session:
        writer = JobWriter(session, site.name)
        reader = SiteReader(session, site.name)
        for source, of_run in _runs_of_the_harness(facts, experiment, fingerprint):
            writer.add(session, source, _jobs(of_run, site))
            states = list(_states(of_run, site))
            if states:
                state_writer = StateWriter(session, reader, writer.source_id(session, source))
                for name, seen, at_s in states:
                    state_writer.add(name, seen, at_s)
    engine.dispose()


def _runs_of_the_harness(
    facts: pl.DataFrame, experiment: str, fingerprint: str
) -> Iterator[tuple[Source, pl.DataFrame]]:
    for (point, replication, scheduler), of_run in facts.group_by(RUN, maintain_order=True):
        key = f"{fingerprint}/{point}/{replication}/{scheduler}"
        yield (
            Source(SourceKind.TESTBED, key, experiment, str(scheduler), int(point), int(replication)),
            of_run,
        )


def _states(facts: pl.DataFrame, site: Site) -> Iterator[tuple[str, Seen, float]]:
    """What went down and came back in one run of the harness."""
    for row in facts.filter(pl.col("event").is_in(list(_IS_UP))).iter_rows(named=True):
        name = row["detail"] if row["resource"] is None else site.resource_names[row["resource"]]
        yield name, Seen(up=_IS_UP[row["event"]]), row["time_s"]


_IS_UP = {
    Fact.MACHINE_DOWN: False,
    Fact.MACHINE_UP: True,
    Fact.INTERCONNECT_DOWN: False,
    Fact.INTERCONNECT_UP: True,
}


def _jobs(facts: pl.DataFrame, site: Site) -> list[JobRecord]:
    """The jobs of one run of the harness, in order of their ends; those without one come last."""
    arrived = facts.filter(pl.col("event") == Fact.JOB_ARRIVED).select(
        "job", "job_class", "queue", "user", "submitted_by", "size", pl.col("time_s").alias("submitted_s")
    )
    started = facts.filter(pl.col("event") == Fact.RUN_STARTED).select(
        "run", "resource", pl.col("machines").list.len(), "expected_s", pl.col("time_s").alias("started_s")
    )
    ended = (
        facts.with_row_index("at")
        .filter(pl.col("event") == Fact.RUN_ENDED)
        .select("at", "job", "run", pl.col("time_s").alias("ended_s"))
    )
    refused = facts.filter(pl.col("event") == Fact.JOB_REFUSED).select("job", "detail")
    preempted = facts.filter(pl.col("event") == Fact.RUN_PREEMPTED).group_by("job").agg(preemptions=pl.len())
    table = (
        arrived.join(ended, on="job", how="left")
        .join(started, on="run", how="left")
        .join(refused, on="job", how="left")
        .join(preempted, on="job", how="left")
        .sort("at", "job", nulls_last=True)
    )
    names = site.resource_names
    return [
        JobRecord(
            number=str(row["job"]),
            job_class=row["job_class"],
            user=row["user"],
            queue=row["queue"],
            state=_state(row["ended_s"], row["detail"]),
            submitted_unix_s=row["submitted_s"],
            resource=None if row["resource"] is None else names[row["resource"]],
            members=row["machines"] or 1,
            started_unix_s=row["started_s"],
            run_time_s=None if row["ended_s"] is None else row["ended_s"] - row["started_s"],
            size=row["size"],
            submitted_by=row["submitted_by"],
            expected_s=row["expected_s"],
            preemptions=row["preemptions"] or 0,
            reason=row["detail"] or "",
        )
        for row in table.iter_rows(named=True)
    ]


def _state(ended_s: float | None, refusal: str | None) -> JobState:
    if ended_s is not None:
        return JobState.DONE
    return JobState.REFUSED if refusal else JobState.WAITING
