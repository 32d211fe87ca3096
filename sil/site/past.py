"""The past of a site as a workload: its jobs as a log, or arrivals drawn at their rate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil

from sqlalchemy.orm import Session

from scheduler import UserError
from sil.settings.experiment_file import PoissonTable, WorkloadTable
from sil.settings.log_tables import HistoryTable
from sil.workload.accounting import RecordedJobs, log_of
from sil.workload.job_log import JobLog
from sil.workload.settings import Rules
from site_db import sites, store
from site_db.jobs.logged import LoggedJob, Tally
from site_db.jobs.past import past_jobs, what_arrived
from site_db.jobs.requests import LoggedRequests
from site_db.jobs.sacct.reader import HETEROGENEOUS, heterogeneous
from site_db.rows import ids_of
from site_db.schema import QueueRow
from site_db.site_file.cluster import SiteNodes
from site_db.site_file.nodes import held_by_class, requests_at
from site_db.site_file.tables import QueueTable, SiteFile
from site_db.sites import SiteReader, find_site
from site_db.store import Address


def past_log(session: Session, file: SiteFile, cluster: SiteNodes, days: float | None) -> JobLog:
    """The jobs that the database has of a site with these nodes, with what their classes request, numbered
    from 1 on. Raises UserError."""
    recorded = _recorded(session, file, cluster, days)
    jobs = [replace(job, number=str(job.line)) for job in recorded.jobs]
    log = log_of(replace(recorded, jobs=jobs), cluster, Rules())
    return replace(log, job_classes=tuple(table.name for table in file.job_classes))


NOT_RECORDED = "are of a database, which does not have their nodes, reservations and options of submission"


def recorded_past(address: str, cluster: SiteNodes) -> RecordedJobs:
    """The jobs that a database has of a site, as they were. Raises UserError and DatabaseTrouble."""
    where = store.parse_address(address)
    with store.opened(where) as session:
        file = SiteReader(session, sites.site_at(session, where)).as_file()
        recorded = _recorded(session, file, cluster, None)
    recorded.tally.remarked[NOT_RECORDED] = dict.fromkeys(job.number for job in recorded.jobs)
    return recorded


def _recorded(session: Session, file: SiteFile, cluster: SiteNodes, days: float | None) -> RecordedJobs:
    past, tally = past_jobs(session, find_site(session, file.name).id, file.name, days), Tally()
    requests = _OfClasses(file, cluster)
    jobs = []
    for line, job in enumerate(past, start=1):
        if (whole_job := heterogeneous(job.number)) is not None:
            tally.remark(HETEROGENEOUS, whole_job)
        within, processors = requests.of_class(job.job_class)
        ended_s = job.started_unix_s + job.run_s
        times = job.submitted_unix_s, job.started_unix_s, ended_s, job.time_limit_s
        names = job.number, job.user, job.job_class, within or job.queue
        jobs.append(LoggedJob(*names, processors, (), *times, account=job.account, qos=job.qos, line=line))
    return RecordedJobs(f"the history of {file.name}", jobs, tally, lambda _: requests)


class _OfClasses(LoggedRequests):
    """What jobs request whose `program` is their job class."""

    def __init__(self, file: SiteFile, cluster: SiteNodes) -> None:
        super().__init__(cluster)
        self._held = {name: ceil(held.cpus) for name, held in held_by_class(file, cluster).items()}
        for name, request in requests_at(file, cluster).items():
            self.add(name, request)

    def of_class(self, name: str) -> tuple[str, int]:
        """The partitions, and the CPUs that its jobs keep from others."""
        return ",".join(sorted(self.all[self._places[name]].partitions)), self._held[name]

    def place(self, job: LoggedJob) -> int:
        return self._places[job.program]

    def cpus(self, job: LoggedJob) -> int:
        return self._held[job.program]

    def never_fit(self) -> Iterator[str]:
        """Nothing: that is said of the classes."""
        return iter(())


QUANTUM_S = 10.0


def past_arrivals(
    history: HistoryTable, queues: Sequence[QueueTable], address: Address | None
) -> WorkloadTable | None:
    """The workload for `[history] jobs`; None if weeks are drawn instead, which are read with the site.

    Jobs of queues that no longer exist (`queues`, or else those of the site) are distributed like the others.
    Raises UserError and DatabaseTrouble.
    """
    if history.jobs is None:
        return None
    if address is None:
        raise UserError("the arriving jobs are those of a site's history; name its database with --site")
    with store.opened(address) as session:
        site = sites.find_site(session, sites.site_at(session, address))
        arrived = what_arrived(session, site.id, site.name, history.days)
        known = [table.name for table in queues] or list(ids_of(session, QueueRow, site.id))
    per_quantum = arrived.per_s * history.load * QUANTUM_S
    return WorkloadTable(
        jobs=history.jobs,
        arrivals=PoissonTable(kind="poisson", jobs_per_quantum=per_quantum, quantum_s=QUANTUM_S),
        mix=dict(arrived.job_classes),
        queues={name: share for name, share in arrived.queues.items() if name in known},
        users=dict(arrived.users),
        sizes=dict(arrived.sizes),
    )
