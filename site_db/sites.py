"""Sites in and out of the database."""

from __future__ import annotations

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from scheduler.etc import EtcMatrix
from scheduler.model import Cluster, Interconnect, JobClass, Machine, Site
from scheduler.queues import MappingPolicy, QueuePolicy
from site_db.exchange import SiteFile
from site_db.schema import (
    ClusterRow,
    ExpectedTimeRow,
    InterconnectRow,
    JobClassRow,
    MachineClassRow,
    MachineRow,
    PreferenceRow,
    QueueRow,
    QueueUserRow,
    SiteRow,
)


class UnknownSite(ValueError):
    """The database has no site of that name."""


def add_site(session: Session, file: SiteFile) -> None:
    """Put the site of a site file into the database."""
    machine_classes = {
        k.name: MachineClassRow(name=k.name, architecture=k.architecture) for k in file.machine_classes
    }
    machines = {
        name: MachineRow(name=name, machine_class=machine_classes[group.machine_class])
        for group in file.machines
        for name in group.names
    }
    interconnects = {
        x.name: InterconnectRow(
            name=x.name, bandwidth_mbit_per_s=x.bandwidth_mbit_per_s, latency_us=x.latency_us
        )
        for x in file.interconnects
    }
    site = SiteRow(
        name=file.name,
        description=file.description,
        machine_classes=list(machine_classes.values()),
        machines=list(machines.values()),
        interconnects=list(interconnects.values()),
    )
    clusters = {
        c.name: ClusterRow(
            name=c.name,
            least_share=c.least_share,
            members=[machines[name] for name in c.members],
            interconnects=[interconnects[name] for name in c.interconnects],
        )
        for c in file.clusters
    }
    site.clusters = list(clusters.values())
    session.add(site)
    session.flush()
    site.job_classes = [
        JobClassRow(
            name=k.name,
            description=k.description,
            expected_times=[
                ExpectedTimeRow(machine_class_id=machine_classes[name].id, expected_s=time_s)
                for name, time_s in k.sequential_s.items()
            ]
            + [
                ExpectedTimeRow(cluster_id=clusters[name].id, expected_s=time_s)
                for name, time_s in k.parallel_s.items()
            ],
            preferences=[
                PreferenceRow(machine_class=machine_classes[name], rank=rank)
                for rank, name in enumerate(k.preferred)
            ],
        )
        for k in file.job_classes
    ]
    queues = {
        q.name: QueueRow(
            name=q.name,
            priority=q.priority,
            scheduler=q.scheduler,
            mapping=q.mapping,
            open_to_all=q.users is None,
            users=[QueueUserRow(user=user) for user in q.users or ()],
        )
        for q in file.queues
    }
    # Rows are inserted in the order in which the session meets them, so first in the order of the file.
    site.queues = list(queues.values())
    for q in file.queues:
        queues[q.name].displaces = [queues[name] for name in q.displaces]
    session.flush()


def find_site(session: Session, name: str) -> SiteRow:
    """The row of a site. Raises UnknownSite."""
    site = session.scalar(select(SiteRow).where(SiteRow.name == name))
    if site is None:
        known = session.scalars(select(SiteRow.name).order_by(SiteRow.name)).all()
        raise UnknownSite(f"the database has no site '{name}'; it has {', '.join(known) or 'none'}")
    return site


def load_site(session: Session, name: str) -> Site:
    """The site as the scheduler knows it. Raises UnknownSite."""
    row = find_site(session, name)
    class_names = {k.id: k.name for k in row.machine_classes}
    cluster_names = {c.id: c.name for c in row.clusters}
    return Site(
        name=row.name,
        machines=tuple(Machine(m.name, class_names[m.machine_class_id]) for m in row.machines),
        clusters=tuple(
            Cluster(
                c.name,
                tuple(m.name for m in c.members),
                tuple(x.name for x in c.interconnects),
                c.least_share,
            )
            for c in row.clusters
        ),
        interconnects=tuple(
            Interconnect(x.name, x.bandwidth_mbit_per_s, x.latency_us) for x in row.interconnects
        ),
        job_classes=tuple(
            JobClass(
                k.name,
                tuple(class_names[t.machine_class_id] for t in k.expected_times if t.machine_class_id),
                tuple(cluster_names[t.cluster_id] for t in k.expected_times if t.cluster_id),
                tuple(p.machine_class.name for p in k.preferences),
            )
            for k in row.job_classes
        ),
    )


def load_queues(session: Session, name: str) -> list[tuple[QueuePolicy, str | None]]:
    """The site's queues, each with the name of its own scheduler (None = the one under test)."""
    return [
        (
            QueuePolicy(
                q.name,
                q.priority,
                None if q.open_to_all else frozenset(user.user for user in q.users),
                frozenset(displaced.name for displaced in q.displaces),
                MappingPolicy(q.mapping),
            ),
            q.scheduler,
        )
        for q in find_site(session, name).queues
    ]


def load_expected_times(session: Session, name: str) -> EtcMatrix:
    """What the site's staff say: seconds per (job class, machine class or cluster), (C, K).

    Row c is the site's job class c; the columns are its machine classes, then its clusters. `job_class_of`
    is the identity over the job classes.
    """
    site = find_site(session, name)
    columns = Columns(site)
    by_class_s = np.full((len(site.job_classes), columns.count), np.inf)
    for c, job_class in enumerate(site.job_classes):
        for row in job_class.expected_times:
            by_class_s[c, columns.of(row.machine_class_id, row.cluster_id)] = row.expected_s
    return columns.matrix(by_class_s, np.arange(len(site.job_classes)))


class Columns:
    """Columns of a site's ETC table: its machine classes, then its clusters."""

    def __init__(self, site: SiteRow) -> None:
        self._of_machine_class = {k.id: column for column, k in enumerate(site.machine_classes)}
        offset = len(self._of_machine_class)
        self._of_cluster = {c.id: offset + column for column, c in enumerate(site.clusters)}
        self._names = tuple(k.name for k in site.machine_classes) + tuple(c.name for c in site.clusters)
        self._resource_class_of = np.array(
            [self._of_machine_class[m.machine_class_id] for m in site.machines]
            + list(self._of_cluster.values()),
            dtype=np.int64,
        )

    @property
    def count(self) -> int:
        return len(self._names)

    def of(self, machine_class_id: int | None, cluster_id: int | None) -> int:
        """The column of a place; one of the two ids is None."""
        return (
            self._of_cluster[cluster_id]
            if cluster_id is not None
            else self._of_machine_class[machine_class_id or 0]
        )

    def matrix(self, by_class_s: np.ndarray, job_class_of: np.ndarray) -> EtcMatrix:
        return EtcMatrix(by_class_s, job_class_of, self._resource_class_of, self._names)
