"""The facts of runs as jobs with their whole runs, for the site database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sil.site.resource_names import ResourceNames
from sil.trace.facts import RUN, Fact
from sil.trace.tables import RunTables
from site_db import store
from site_db.jobs.records import JobRecord, JobState, PredictedTurnaround, Source, SourceKind
from site_db.jobs.writer import JobWriter
from site_db.sites import SiteReader
from site_db.states import Seen, StateWriter

Run = tuple[Any, ...]
"""Point, replication and scheduler of one run of the harness."""


def batches(
    tables: RunTables, resources: ResourceNames, experiment: str, fingerprint: str
) -> Iterator[tuple[Source, Sequence[JobRecord]]]:
    """The jobs of each run of the harness, in order of its facts, with the source that stands for the run."""
    predicted = _predicted(tables)
    for run, of_run in tables.facts.group_by(RUN, maintain_order=True):
        yield _source(run, experiment, fingerprint), _jobs(of_run, resources, predicted.get(run, {}))


def write_results(
    database: Path, tables: RunTables, resources: ResourceNames, experiment: str, fingerprint: str
) -> None:
    """Add all jobs, their whole runs, what was predicted of them and what went down and came back to the
    database, in one transaction."""
    engine = store.open_file(database)
    with store.changing(engine) as session:
        writer = JobWriter(session, resources.site)
        reader = SiteReader(session, resources.site)
        for source, jobs in batches(tables, resources, experiment, fingerprint):
            writer.add(session, source, jobs)
        for run, of_run in tables.facts.group_by(RUN, maintain_order=True):
            source = _source(run, experiment, fingerprint)
            states = list(_states(of_run, resources))
            if states:
                state_writer = StateWriter(session, reader, writer.source_id(session, source))
                for name, seen, at_s in states:
                    state_writer.add(name, seen, at_s)
    engine.dispose()


def _source(run: Run, experiment: str, fingerprint: str) -> Source:
    """What stands for one run of the harness."""
    point, replication, scheduler = run
    key = f"{fingerprint}/{point}/{replication}/{scheduler}"
    return Source(SourceKind.TESTBED, key, experiment, scheduler, point, replication)


def _predicted(tables: RunTables) -> dict[Run, dict[int, list[PredictedTurnaround]]]:
    """What was predicted of each job in each run; that a job never ends is no turnaround."""
    predicted: dict[Run, dict[int, list[PredictedTurnaround]]] = {}
    finite = tables.predictions.filter(pl.col("end_s").is_finite())
    for run, of_run in finite.group_by(RUN, maintain_order=True):
        of_jobs: dict[int, list[PredictedTurnaround]] = {}
        for row in of_run.iter_rows(named=True):
            of_jobs.setdefault(row["job"], []).append(
                PredictedTurnaround(
                    row["predictor"],
                    row["made_s"],
                    row["end_s"],
                    row["low_s"],
                    row["high_s"],
                    row["start_s"] is not None,
                    row["jobs_there"],
                )
            )
        predicted[run] = of_jobs
    return predicted


def _states(facts: pl.DataFrame, resources: ResourceNames) -> Iterator[tuple[str, Seen, float]]:
    """What went down and came back in one run of the harness."""
    for row in facts.filter(pl.col("event").is_in(list(_IS_UP))).iter_rows(named=True):
        name = resources.resource(row["resource"]) or row["detail"]
        yield name, Seen(up=_IS_UP[row["event"]]), row["time_s"]


_IS_UP = {
    Fact.MACHINE_DOWN: False,
    Fact.MACHINE_UP: True,
    Fact.INTERCONNECT_DOWN: False,
    Fact.INTERCONNECT_UP: True,
}


def _jobs(
    facts: pl.DataFrame, resources: ResourceNames, predicted: Mapping[int, Sequence[PredictedTurnaround]]
) -> list[JobRecord]:
    """The jobs of one run of the harness, in order of their ends; those without one come last."""
    arrived = facts.filter(pl.col("event") == Fact.JOB_ARRIVED).select(
        "job", "job_class", "queue", "user", "submitted_by", "size", pl.col("time_s").alias("submitted_s")
    )
    started = facts.filter(pl.col("event") == Fact.RUN_STARTED).select(
        "run", "resource", "tasks", "expected_s", pl.col("time_s").alias("started_s")
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
    return [
        JobRecord(
            number=str(row["job"]),
            job_class=row["job_class"],
            user=row["user"],
            queue=row["queue"],
            state=_state(row["ended_s"], row["detail"]),
            submitted_s=row["submitted_s"],
            resource=resources.resource(row["resource"]),
            members=row["tasks"] or 1,
            started_s=row["started_s"],
            run_time_s=None if row["ended_s"] is None else row["ended_s"] - row["started_s"],
            size=row["size"],
            submitted_by=row["submitted_by"],
            expected_s=row["expected_s"],
            preemptions=row["preemptions"] or 0,
            reason=row["detail"] or "",
            predicted=tuple(predicted.get(row["job"], ())),
        )
        for row in table.iter_rows(named=True)
    ]


def _state(ended_s: float | None, refusal: str | None) -> JobState:
    if ended_s is not None:
        return JobState.DONE
    return JobState.REFUSED if refusal else JobState.WAITING
