"""Experience: run-time estimates from a site's statistics, and learning from completed runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from scheduler.mapping.etc import EtcMatrix
from scheduler.model import ExecutionRecord, Job, JobId
from site_db.estimation import Cell, Estimator, ExecutionEstimate, PlaceKind, RunPlace, SiteLayout
from site_db.history.statistics import RunStatistics
from site_db.history.stored_statistics import Key, read_moments, read_stored_as_of
from site_db.schema import ExecutionHistoryRow, JobClassRow, JobRow, PredictionRow, SourceRow
from site_db.sites import SiteReader


class MemoryExperience:
    """The scheduler's Experience port in memory: it starts from statistics and learns from completed runs."""

    def __init__(self, layout: SiteLayout, statistics: Mapping[Cell, RunStatistics]) -> None:
        self._layout = layout
        self._estimator = Estimator(layout, statistics)

    def estimate(self, jobs: Sequence[Job], members: Sequence[int]) -> EtcMatrix:
        """Expected seconds of `jobs` on the resources of the site as it is scheduled, by the table in
        `site_db.estimation`.

        `members` are those available of each cluster. Raises ValueError for an unknown job class.
        """
        return self._estimator.matrix(jobs, self._layout.slots.machines_with(members))

    def explain(self, job: Job, resource: int, members: int | None = None) -> ExecutionEstimate | None:
        """The estimate for a job on a machine or cluster and its rule; None if the job may not run there.

        `resource` is an index into `SiteLayout.resources`, `members` the number of a cluster's machines.
        """
        return self._estimator.estimate(self._layout.index_of(job), resource, job.size, members)

    def record(self, record: ExecutionRecord) -> None:
        """Learn from a completed run. Raises ValueError for an unknown job class or an invalid run time."""
        if not 0.0 < record.run_time_s < float("inf"):
            raise ValueError(
                f"job {record.job.id}: its run time is {record.run_time_s}; expected seconds > 0"
            )
        runs = RunStatistics.of([record.run_time_s], [record.job.size])
        where = self._layout.slots.place(record.resource, record.n_machines)
        self._estimator.learn(self._layout.index_of(record.job), *where, runs)


Expect = Callable[[str, str], float | None]
"""Expected seconds of a job class on a machine class, or on a whole cluster; None where it cannot run."""


def expected_times(layout: SiteLayout, experience: MemoryExperience) -> Expect:
    """Expected seconds on machines of a class, and on clusters, by the names of a site."""
    first_of = {kind: j for j, kind in reversed(list(enumerate(layout.class_of_machine)))}
    resources = {name: first_of[kind] for kind, name in enumerate(layout.machine_classes) if kind in first_of}
    resources |= {name: len(layout.machines) + c for c, name in enumerate(layout.clusters)}

    def expect(job_class: str, place: str) -> float | None:
        if place not in resources:
            return None
        found = experience.explain(Job(JobId(0), job_class, 0.0), resources[place])
        return None if found is None else found.expected_s

    return expect


class StatisticsReader:
    """Reads the statistics of a site in terms of its layout."""

    def __init__(self, session: Session, site: str) -> None:
        """Read what statistics of a site refer to. Raises UserError."""
        reader = SiteReader(session, site)
        self._site_id = reader.site.id
        self.layout = reader.layout()
        self._job_class, *places = (
            {id: index for index, id in enumerate(reader.ids(kind).values())}
            for kind in ("job_classes", "machines", "machine_classes", "clusters")
        )
        self._places = dict(zip(PlaceKind, places, strict=True))

    def statistics(self, session: Session, as_of: int | None = None) -> dict[Cell, RunStatistics]:
        """The current statistics, or those after run `as_of`. Raises UserError."""
        if as_of is None:
            found = read_moments(session, self._site_id)
        else:
            stored = read_stored_as_of(session, self._site_id, as_of)
            found = {key: one.runs for key, one in stored.items()}
        cells = ((self.cell(key), runs) for key, runs in found.items())
        return {cell: runs for cell, runs in cells if cell is not None}

    def cell(self, key: Key) -> Cell | None:
        """The cell of the layout for a row of statistics; None if its place is newer than this reader."""
        kinds = zip(PlaceKind, (key.machine_id, key.machine_class_id, key.cluster_id), strict=True)
        kind, id = next((kind, id) for kind, id in kinds if id is not None)
        job_class, which = self._job_class.get(key.job_class_id), self._places[kind].get(id)
        if job_class is None or which is None:
            return None
        return job_class, RunPlace(kind, which, key.members or 0)


MAX_ERRORS = 200_000
"""The most predictions that are read, the latest ones of one scheduler."""


class KnownError(NamedTuple):
    """The error of a prediction: `ratio` is actual by predicted seconds from the prediction to the job's end.

    `waiting` and `jobs_there` (jobs that had not ended) describe the moment of the prediction.
    """

    scheduler: str
    predictor: str
    job_class: str
    tasks: int
    waiting: bool
    jobs_there: int
    ratio: float


def schedulers_predicted(session: Session, site_id: int) -> list[str]:
    """The schedulers under which turnaround was predicted, by their given names."""
    predicted = exists().where(
        PredictionRow.site_id == JobRow.site_id,
        PredictionRow.job_serial == JobRow.serial,
        PredictionRow.quantity == "turnaround",
    )
    of_one = exists().where(JobRow.source_id == SourceRow.id, predicted)
    query = select(SourceRow.scheduler).where(SourceRow.site_id == site_id, of_one).distinct()
    return sorted(name or "" for name in session.scalars(query))


def known_errors(session: Session, site_id: int, scheduler: str, as_of: int) -> list[KnownError]:
    """The errors for all jobs under a scheduler that had ended as of run `as_of`, in the order of their ends.

    Jobs whose runs were pruned are left out.
    """
    run, job, made = ExecutionHistoryRow, JobRow, PredictionRow
    of_job = (JobClassRow.name, run.members, job.submitted_unix_s)
    times = (made.made_unix_s, made.predicted_s, made.actual_s)
    query = (
        select(*of_job, made.predictor, made.waiting, made.jobs_there, *times)
        .join(job, (job.site_id == made.site_id) & (job.serial == made.job_serial))
        .join(run, (run.site_id == job.site_id) & (run.number == job.run_number))
        .join(SourceRow, SourceRow.id == job.source_id)
        .join(JobClassRow, JobClassRow.id == job.job_class_id)
        .where(
            made.site_id == site_id,
            func.coalesce(SourceRow.scheduler, "") == scheduler,
            made.quantity == "turnaround",
            made.actual_s.is_not(None),
            made.jobs_there.is_not(None),
            job.run_number <= as_of,
        )
        .order_by(job.run_number.desc(), made.id.desc())
        .limit(MAX_ERRORS)
    )
    errors = []
    for row in session.execute(query):
        elapsed_s = row.made_unix_s - row.submitted_unix_s
        if row.predicted_s > elapsed_s:
            ratio = (row.actual_s - elapsed_s) / (row.predicted_s - elapsed_s)
            alike = (row.members or 1, bool(row.waiting), row.jobs_there)
            errors.append(KnownError(scheduler, row.predictor, row.name, *alike, ratio))
    return errors[::-1]
