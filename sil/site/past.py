"""The past of a site as a workload: its jobs as a log, or arrivals drawn at their rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil

from sqlalchemy.orm import Session

from scheduler import UserError
from scheduler.priority.claims import Claimant
from sil.settings.experiment_file import PoissonTable, WorkloadTable
from sil.settings.log_tables import HistoryTable
from sil.workload.accounting import longest_under, sentences, times_of
from sil.workload.job_log import JobLog, log_on_nodes
from sil.workload.settings import Rules
from site_db import sites, store
from site_db.jobs.past import past_jobs, what_arrived
from site_db.jobs.records import Charged, Tally
from site_db.jobs.sacct.reader import HETEROGENEOUS, heterogeneous
from site_db.rows import ids_of
from site_db.schema import QueueRow
from site_db.site_file.cluster import SiteNodes
from site_db.site_file.nodes import held_by_class, requests_at
from site_db.site_file.tables import QueueTable, SiteFile
from site_db.sites import find_site
from site_db.store import Address


def past_log(session: Session, file: SiteFile, cluster: SiteNodes, days: float | None) -> JobLog:
    """The jobs that the database has of a site with these nodes, with what their classes request. Raises
    UserError."""
    jobs = past_jobs(session, find_site(session, file.name).id, file.name, days)
    notes, charged = Counter[str](), dict[Charged, int]()
    most_s = longest_under(cluster)
    requests = requests_at(file, cluster)
    position = {name: k for k, name in enumerate(requests)}
    cpus = {name: ceil(held.cpus) for name, held in held_by_class(file, cluster).items()}
    users = {name: x for x, name in enumerate(dict.fromkeys(job.user for job in jobs))}
    origin_s = jobs[0].submitted_unix_s
    tally, rows = Tally(), []
    for number, job in enumerate(jobs, start=1):
        request = requests[job.job_class]
        if (whole_job := heterogeneous(job.number)) is not None:
            tally.remark(HETEROGENEOUS, whole_job)
        whom = Charged(job.account, job.qos)
        within_s = most_s(Claimant(job.user, *whom), request.partitions)
        run_s, limit_s = times_of(
            job.run_s, job.time_limit_s, request.partitions, cluster, Rules(), notes, within_s
        )
        submit_s, kind = job.submitted_unix_s - origin_s, position[job.job_class]
        by = users[job.user], kind, charged.setdefault(whom, len(charged))
        rows.append((number, submit_s, run_s, cpus[job.job_class], limit_s, *by))
    return log_on_nodes(
        f"the history of {file.name}",
        rows,
        cluster,
        [*requests.values()],
        header={"unixstarttime": f"{origin_s:.0f}"},
        notes=(*sentences(notes), *tally.remarks()),
        job_classes=tuple(requests),
        users={x: name for name, x in users.items()},
        charged=tuple(charged),
    )


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
