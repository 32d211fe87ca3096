"""Writes the jobs of an experiment to databases: that of its results, and that of its site."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, Self

import polars as pl
from sqlalchemy.orm import Session

from sil.experiment.provenance import fingerprint, fingerprint_of_runs
from sil.outcome.refused_and_failed import IS_FAILURE
from sil.runs.scenario import Scenario
from sil.site.site_in_use import ResourceNames
from sil.trace.facts import RUN, Fact, RunTables
from site_db import store
from site_db.history import writer as history
from site_db.jobs import recording
from site_db.jobs.recording import Recorder
from site_db.jobs.records import Batch, JobRecord, JobState, PredictedTurnaround, Source, SourceKind
from site_db.jobs.writer import JobWriter, add_job_classes
from site_db.rows import ids_of
from site_db.schema import JobClassRow
from site_db.sites import SiteReader, find_site, site_at
from site_db.states import Observation, StateWriter
from site_db.store import Address, DatabaseTrouble


@dataclass(frozen=True)
class Identity:
    """An experiment in databases: its name, the fingerprint of its runs, and that of all replications."""

    name: str
    runs: str
    whole: str

    @classmethod
    def of(cls, scenario: Scenario) -> Identity:
        return cls(scenario.experiment.name, fingerprint_of_runs(scenario), fingerprint(scenario))

    @property
    def complete(self) -> Source:
        """A source without jobs, which a database has if it has all runs of the experiment."""
        return Source(SourceKind.TESTBED, self.whole, self.name)

    def source(self, run: Run) -> Source:
        """The source of the jobs of one run of the harness."""
        point, replication, scheduler = run
        key = f"{self.runs}/{point}/{replication}/{scheduler}"
        return Source(SourceKind.TESTBED, key, self.name, scheduler, point, replication)

    def has_begun_at(self, address: Address) -> bool:
        """Whether the site of a database has any run. Raises UserError and DatabaseTrouble."""
        with store.opened(address) as session:
            return JobWriter(session, site_at(session, address)).has_any(session, f"{self.runs}/")

    def is_complete_at(self, address: Address) -> bool:
        """Whether it has all runs. Raises UserError and DatabaseTrouble."""
        with store.opened(address) as session:
            return JobWriter(session, site_at(session, address)).has(session, self.complete)


Run = tuple[Any, ...]
"""Point, replication and scheduler of one run of the harness."""
NTH = "nth"
"""The column that numbers the runs of the harness."""


def batches(tables: RunTables, resources: ResourceNames, identity: Identity) -> Iterator[Batch]:
    """The jobs of each run of the harness, in order of its facts, with their source."""
    predicted = _predicted(tables)
    runs = tables.facts.select(RUN).unique(maintain_order=True).with_row_index(NTH)
    jobs = _jobs(tables.facts.join(runs, on=RUN, maintain_order="left"))
    n_jobs = dict(jobs.group_by(NTH).len().iter_rows())
    first = 0
    for nth, *run in runs.iter_rows():
        n = n_jobs.get(nth, 0)
        records = list(_records(jobs.slice(first, n), resources, predicted.get(tuple(run), {})))
        yield identity.source(tuple(run)), records
        first += n


def write_results(database: Path, tables: RunTables, resources: ResourceNames, identity: Identity) -> None:
    """Add all jobs with their runs and predictions, and all changes of state, in one transaction; those of
    runs that the database has are left out."""
    engine = store.open_file(database)
    found = list(batches(tables, resources, identity))
    with store.changing(engine) as session:
        _add_job_classes(session, resources.site, tables.facts)
        writer = JobWriter(session, resources.site)
        reader = SiteReader(session, resources.site)
        known = writer.ids_of(session, [source for source, _ in found])
        new = [batch for batch in found if batch[0].key not in known]
        for together in _together(new):
            writer.add_all(session, together)
        ids = writer.put(session, [source for source, _ in new])
        changes = tables.facts.filter(pl.col("event").is_in(list(_IS_UP)))
        for run, of_run in changes.group_by(RUN, maintain_order=True):
            if (source := identity.source(run)).key in known:
                continue
            state_writer = StateWriter(session, reader, ids[source.key])
            states: dict[str, bool] = {}
            for row in of_run.iter_rows(named=True):
                name, up = resources.recorded(row["resource"])[0] or row["detail"], _IS_UP[row["event"]]
                if states.get(name) is not up:  # not again for each slot of a machine
                    state_writer.add(name, Observation(up=up), row["time_s"])
                states[name] = up
        writer.put(session, [identity.complete])
    engine.dispose()


def _together(found: Sequence[Batch]) -> Iterator[Sequence[Batch]]:
    """The jobs that are written together: about as many as there are runs from one snapshot of the history to
    the next, which is taken after a write."""
    begin, n = 0, 0
    for k, (_, jobs) in enumerate(found, start=1):
        n += len(jobs)
        if n >= history.SNAPSHOT_EVERY or k == len(found):
            yield found[begin:k]
            begin, n = k, 0


def _add_job_classes(session: Session, site: str, facts: pl.DataFrame) -> None:
    """Jobs of a log may be of classes that the site does not have."""
    site_id = find_site(session, site).id
    names = sorted(facts["job_class"].drop_nulls().unique())
    add_job_classes(session, site_id, ids_of(session, JobClassRow, site_id), names)


def _predicted(tables: RunTables) -> dict[Run, dict[int, list[PredictedTurnaround]]]:
    found: dict[Run, dict[int, list[PredictedTurnaround]]] = defaultdict(lambda: defaultdict(list))
    columns = ("predictor", "made_s", "end_s", "low_s", "high_s")
    finite = tables.predictions.filter(pl.col("end_s").is_finite())
    for *run, job, waited, jobs_there, predictor, made_s, end_s, low_s, high_s in finite.select(
        *RUN, "job", pl.col("start_s").is_not_null(), "jobs_there", *columns
    ).iter_rows():
        made = PredictedTurnaround(predictor, made_s, end_s, low_s, high_s, waited, jobs_there)
        found[tuple(run)][job].append(made)
    return found


_IS_UP = {
    Fact.MACHINE_DOWN: False,
    Fact.MACHINE_UP: True,
    Fact.INTERCONNECT_DOWN: False,
    Fact.INTERCONNECT_UP: True,
}


def _jobs(facts: pl.DataFrame) -> pl.DataFrame:
    """The jobs of all runs of the harness, run by run, in order of completion; those that are not complete
    come last."""
    arrived = facts.filter(pl.col("event") == Fact.JOB_ARRIVED).select(
        NTH, "job", "job_class", "queue", "user", "submitted_by", "size", submitted_s="time_s"
    )
    started = facts.filter(pl.col("event") == Fact.RUN_STARTED).select(
        *(NTH, "run", "resource", "tasks", "expected_s"),
        started_s="time_s",
        first_node=pl.col("machines").list.first().struct.field("first"),
    )
    ended = (
        facts.with_row_index("at")
        .filter(pl.col("event") == Fact.RUN_ENDED)
        .select(NTH, "at", "job", "run", ended_s="time_s")
    )
    refused = facts.filter(pl.col("event") == Fact.JOB_REFUSED).select(NTH, "job", "detail")
    failed = facts.filter(IS_FAILURE).select(NTH, "job", failed=True).unique()
    preempted = facts.filter(pl.col("event") == Fact.RUN_PREEMPTED)
    return (
        arrived.join(ended, on=[NTH, "job"], how="left")
        .join(started, on=[NTH, "run"], how="left")
        .join(refused, on=[NTH, "job"], how="left")
        .join(failed, on=[NTH, "job"], how="left")
        .join(preempted.group_by(NTH, "job").agg(preemptions=pl.len()), on=[NTH, "job"], how="left")
        .sort(NTH, "at", "job", nulls_last=True)
    )


def _records(
    jobs: pl.DataFrame, resources: ResourceNames, predicted: Mapping[int, Sequence[PredictedTurnaround]]
) -> Iterator[JobRecord]:
    for row in jobs.iter_rows(named=True):
        resource, members = resources.recorded(row["resource"], row["tasks"] or 1)
        state = JobState.DONE
        if row["ended_s"] is None:
            unfinished = JobState.FAILED if row["failed"] else JobState.REFUSED
            state = unfinished if row["detail"] else JobState.WAITING
        yield JobRecord(
            number=str(row["job"]),
            job_class=row["job_class"],
            user=row["user"],
            queue=row["queue"],
            state=state,
            submitted_s=row["submitted_s"],
            resource=resource,
            machine_class=resources.machine_class(row["first_node"]),
            members=None if resources.node_classes else members,
            started_s=row["started_s"],
            run_time_s=None if row["ended_s"] is None else row["ended_s"] - row["started_s"],
            size=row["size"],
            submitted_by=row["submitted_by"],
            expected_s=row["expected_s"],
            preemptions=row["preemptions"] or 0,
            reason=row["detail"] or "",
            predicted=tuple(predicted.get(row["job"], ())),
        )


class Teacher:
    """Records the finished replications of one experiment in the database of its site.

    Runs that an earlier start of the experiment has recorded are left out. Jobs that cannot be written until
    the end go to the file `leftover`.
    """

    def __init__(
        self,
        address: Address,
        resources: ResourceNames,
        identity: Identity,
        leftover: Path,
        notify: Callable[[str], None],
    ) -> None:
        """Raises DatabaseTrouble if the database cannot be reached at the beginning."""
        self._address, self._resources, self._identity = address, resources, identity
        self._leftover, self._notify = leftover, notify
        self._recorder = Recorder(store.open_database(address), resources.site, notify)

    def teach(self, tables: RunTables, is_last: bool) -> None:
        """Record some runs of the harness; with the last ones, that the experiment is complete. Raises
        DatabaseTrouble."""
        complete = self._identity.complete
        found = list(batches(tables, self._resources, self._identity))
        if is_last and not found:
            found = [(complete, ())]
        for k, (source, jobs) in enumerate(found, start=1):
            self._recorder.record(source, jobs, complete if is_last and k == len(found) else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Try once more to write the waiting jobs; the rest goes to the file."""
        try:
            self._recorder.write()
        except DatabaseTrouble as trouble:
            self._notify(str(trouble))
        waiting = self._recorder.waiting
        if not waiting:
            self._leftover.unlink(missing_ok=True)
            return
        recording.write(self._leftover, waiting)
        self._notify(
            f"{sum(len(jobs) for _, jobs in waiting)} jobs could not be recorded and are kept in "
            f"{self._leftover}; record them later with: sil db history --import {quote(str(self._leftover))} "
            f"--db {quote(f'{self._address}#{self._resources.site}')}"
        )
