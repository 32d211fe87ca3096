"""The scheduler's Experience port: over the site database, and in memory."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from scheduler.mapping.etc import EtcMatrix
from scheduler.model import ExecutionRecord, Job
from site_db import store
from site_db.estimation import Cell, Estimator, ExecutionEstimate, Layout, Place, PlaceKind
from site_db.history.as_of import read_kept_as_of
from site_db.history.kept_statistics import Changes, read_changes
from site_db.history.statistics import RunStatistics
from site_db.history.whole_run import Key
from site_db.jobs.recorder import Recorder
from site_db.jobs.records import LIVE, JobRecord, JobState, Source
from site_db.sites import SiteReader
from site_db.store import Unreachable

log = logging.getLogger(__name__)


class MemoryExperience:
    """Experience that begins with what is known of a site, and learns for itself alone."""

    def __init__(self, layout: Layout, statistics: Mapping[Cell, RunStatistics]) -> None:
        self._layout = layout
        self._estimator = Estimator(layout, statistics)

    def estimate(self, jobs: Sequence[Job], members: Sequence[int]) -> EtcMatrix:
        """Expected seconds of `jobs` on the site's resources, by the table in `site_db.estimation`.

        `members` are those available of each cluster. Raises ValueError for an unknown job class.
        """
        return self._estimator.matrix(jobs, members)

    def explain(self, job: Job, resource: int, members: int | None = None) -> ExecutionEstimate | None:
        """What is expected of a job on one resource, and on what grounds; None where it may not run."""
        return self._estimator.estimate(self._layout.index_of(job), resource, job.size, members)

    def record(self, record: ExecutionRecord) -> None:
        """Learn from one whole run. Raises ValueError for an unknown job class or a time that is none."""
        if not 0.0 < record.run_time_s < float("inf"):
            raise ValueError(
                f"job {record.job.id}: its run time is {record.run_time_s}; expected seconds > 0"
            )
        runs = RunStatistics.of([record.run_time_s], [record.job.size])
        self._estimator.learn(self._layout.index_of(record.job), record.resource, record.n_machines, runs)


class SqlExperience:
    """Experience over the site database, as a site's own manager uses it.

    Every estimate reads in one query the statistics that have changed, and so knows what others have
    recorded; read `as of` a run of the past, it stays as it was then. Where the database cannot be reached,
    what was read last holds, completions wait, and the log says so. It knows the site as it was when it
    began, like the manager: a machine that comes later is not told of.
    """

    def __init__(self, engine: Engine, site: str, as_of: int | None = None, source: Source = LIVE) -> None:
        """Raises UnknownSite, PrunedHistory, DatabaseTrouble."""
        self._engine = engine
        self._source = source
        self._pinned = as_of is not None
        self._version, self._read_up_to = -1, 0
        with store.reading(engine) as session:
            self._reader = StatisticsReader(session, site)
            self._believed = Estimator(self._reader.layout, {})
            if as_of is None:
                self._read_changes(session)
            else:
                self._believed.replace(self._reader.statistics(session, as_of))
        self._recorder = Recorder(engine, site, log.warning, "runs")

    def estimate(self, jobs: Sequence[Job], members: Sequence[int]) -> EtcMatrix:
        """As MemoryExperience.estimate."""
        self._refresh()
        return self._believed.matrix(jobs, members)

    def explain(self, job: Job, resource: int, members: int | None = None) -> ExecutionEstimate | None:
        """As MemoryExperience.explain."""
        self._refresh()
        return self._believed.estimate(self._reader.layout.index_of(job), resource, job.size, members)

    def record(self, record: ExecutionRecord) -> None:
        """Add one whole run to the history, in a transaction of its own, or later if the database is away.

        Raises BadRecord and DatabaseTrouble.
        """
        self.record_all([record])

    def record_all(self, records: Sequence[ExecutionRecord]) -> None:
        """Add some whole runs in one transaction; as `record`."""
        layout = self._reader.layout
        names = (*layout.machines, *layout.clusters)
        self._recorder.record(
            self._source,
            [
                JobRecord(
                    number=str(record.job.id),
                    job_class=record.job.job_class,
                    user=record.job.user,
                    queue=record.job.queue,
                    state=JobState.DONE,
                    submitted_unix_s=record.job.arrival_s,
                    resource=names[record.resource],
                    members=record.n_machines,
                    started_unix_s=float(record.started_s),
                    run_time_s=float(record.run_time_s),
                    size=record.job.size,
                )
                for record in records
            ],
        )

    def _refresh(self) -> None:
        if self._pinned:
            return
        try:
            with store.reading(self._engine) as session:
                self._read_changes(session)
        except Unreachable as trouble:
            log.warning("%s; what was read last is believed", trouble)

    def _read_changes(self, session: Session) -> None:
        changes = self._reader.changes(session, self._read_up_to)
        if changes.version != self._version:
            # What left the site took its statistics with it.
            self._believed = Estimator(self._reader.layout, {})
            changes = self._reader.changes(session) if self._read_up_to else changes
        self._version, self._read_up_to = changes.version, changes.last
        self._believed.replace(self._reader.by_cell(changes.statistics.items()))


class StatisticsReader:
    """Reads what a site's history says, in terms of the site's layout."""

    def __init__(self, session: Session, site: str) -> None:
        """Raises UnknownSite."""
        reader = SiteReader(session, site)
        self._site_id = reader.site.id
        self.layout = reader.layout()
        self._job_class = _index_by_id(reader.ids("job_classes"))
        self._machine_class = _index_by_id(reader.ids("machine_classes"))
        self._machine = _index_by_id(reader.ids("machines"))
        self._cluster = _index_by_id(reader.ids("clusters"))

    def statistics(self, session: Session, as_of: int | None = None) -> dict[Cell, RunStatistics]:
        """The statistics as they are, or as they were after run `as_of`. Raises PrunedHistory."""
        if as_of is None:
            return self.by_cell(self.changes(session).statistics.items())
        kept = read_kept_as_of(session, self._site_id, as_of)
        return self.by_cell((key, one.runs) for key, one in kept.items())

    def changes(self, session: Session, since: int = 0) -> Changes:
        """The statistics that changed after run `since`."""
        return read_changes(session, self._site_id, since)

    def cell(self, key: Key) -> Cell | None:
        """Where in the layout a row of statistics belongs; None if that came to the site later."""
        if key.machine_id is not None:
            kind, which = PlaceKind.MACHINE, self._machine.get(key.machine_id)
        elif key.machine_class_id is not None:
            kind, which = PlaceKind.MACHINE_CLASS, self._machine_class.get(key.machine_class_id)
        else:
            kind, which = PlaceKind.CLUSTER, self._cluster.get(key.cluster_id or 0)
        job_class = self._job_class.get(key.job_class_id)
        if job_class is None or which is None:
            return None
        return job_class, Place(kind, which, key.members or 0)

    def by_cell(self, statistics: Iterable[tuple[Key, RunStatistics]]) -> dict[Cell, RunStatistics]:
        """Statistics by where they belong in the layout."""
        return {cell: runs for key, runs in statistics if (cell := self.cell(key)) is not None}


def _index_by_id(ids: Mapping[str, int]) -> dict[int, int]:
    return {id: index for index, id in enumerate(ids.values())}
