"""The scheduler's Experience port: over the site database, and in memory."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from scheduler.etc import EtcMatrix
from scheduler.model import ExecutionRecord, Job
from site_db.estimation import Cell, Estimator, ExecutionEstimate, Layout, Place, PlaceKind
from site_db.history.as_of import read_kept_as_of
from site_db.history.kept_statistics import read_statistics
from site_db.history.statistics import RunStatistics
from site_db.history.whole_run import Key
from site_db.jobs.recorder import Recorder
from site_db.jobs.records import LIVE, JobRecord, JobState, Source
from site_db.sites import SiteReader
from site_db.store import Address, Unreachable, in_sentences

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
    what was read last holds, completions wait, and the log says so.
    """

    def __init__(
        self, engine: Engine, address: Address, site: str, as_of: int | None = None, source: Source = LIVE
    ) -> None:
        """Raises UnknownSite, PrunedHistory, DatabaseTrouble."""
        self._engine = engine
        self._address = address
        self._source = source
        self._pinned = as_of is not None
        with in_sentences(address), Session(engine) as session:
            self._reader = StatisticsReader(session, site)
            self._believed, self._read_up_to = Estimator(self._reader.layout, {}), 0
            if as_of is None:
                self._read_changes(session)
            else:
                self._believed.replace(self._reader.statistics(session, as_of))
        self._recorder = Recorder(engine, address, site, log.warning, "runs")

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
            with in_sentences(self._address), Session(self._engine) as session:
                self._read_changes(session)
        except Unreachable as trouble:
            log.warning("%s; what was read last is believed", trouble)

    def _read_changes(self, session: Session) -> None:
        changed, self._read_up_to = self._reader.changes(session, self._read_up_to)
        self._believed.replace(changed)


class StatisticsReader:
    """Reads what a site's history says, in terms of the site's layout."""

    def __init__(self, session: Session, site: str) -> None:
        """Raises UnknownSite."""
        reader = SiteReader(session, site)
        self._site_id = reader.site.id
        self.layout = reader.layout()
        self._job_class = {k.id: c for c, k in enumerate(reader.job_classes)}
        self._machine_class = {k.id: index for index, k in enumerate(reader.machine_classes)}
        self._machine = {m.id: index for index, m in enumerate(reader.machines)}
        self._cluster = {c.id: index for index, c in enumerate(reader.clusters)}

    def read(self, session: Session, as_of: int | None = None) -> Estimator:
        """Estimates from the statistics as they are, or as they were after run `as_of`.

        Raises PrunedHistory.
        """
        return Estimator(self.layout, self.statistics(session, as_of))

    def statistics(self, session: Session, as_of: int | None = None) -> dict[Cell, RunStatistics]:
        """The statistics themselves; as `read`."""
        if as_of is None:
            return self.changes(session, 0)[0]
        kept = read_kept_as_of(session, self._site_id, as_of)
        return {self.cell(key): one.runs for key, one in kept.items()}

    def changes(self, session: Session, since: int) -> tuple[dict[Cell, RunStatistics], int]:
        """The statistics that changed after run `since`, and the last run that changed any."""
        changed, last = read_statistics(session, self._site_id, since)
        return {self.cell(key): runs for key, runs in changed.items()}, last

    def cell(self, key: Key) -> Cell:
        """Where in the layout a row of statistics belongs."""
        if key.machine_id is not None:
            place = Place(PlaceKind.MACHINE, self._machine[key.machine_id])
        elif key.machine_class_id is not None:
            place = Place(PlaceKind.MACHINE_CLASS, self._machine_class[key.machine_class_id])
        else:
            place = Place(PlaceKind.CLUSTER, self._cluster[key.cluster_id or 0], key.members or 0)
        return self._job_class[key.job_class_id], place
