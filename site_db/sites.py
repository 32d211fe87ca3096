"""Sites in the database, read: as the scheduler knows them, and as a site file says them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from scheduler.admission import UserPolicy
from scheduler.errors import UserError
from scheduler.model import Cluster, Interconnect, JobClass, Machine, Site
from scheduler.queues import MappingPolicy, QueuePolicy
from site_db.estimation import Layout, Place, PlaceKind
from site_db.schema import AllowedPlaceRow, SiteRow
from site_db.site_file.exporting import site_file_of
from site_db.site_file.tables import SiteFile
from site_db.site_rows import SiteRows


class UnknownSite(UserError):
    """The database has no site of that name. The message is one sentence for the user."""


def site_names(session: Session) -> Sequence[str]:
    return session.scalars(select(SiteRow.name).order_by(SiteRow.name)).all()


def only_site(session: Session) -> str:
    """The name of the site, where the database has just one. Raises UnknownSite."""
    names = site_names(session)
    if len(names) != 1:
        which = f"it has {', '.join(names)}; add #NAME to its address" if names else "it has none"
        raise UnknownSite(f"which site of the database is meant? {which}")
    return names[0]


def find_site(session: Session, name: str) -> SiteRow:
    """The row of a site. Raises UnknownSite."""
    site = session.scalar(select(SiteRow).where(SiteRow.name == name))
    if site is None:
        known = ", ".join(site_names(session)) or "none"
        raise UnknownSite(f"the database has no site '{name}'; it has {known}")
    return site


class SiteReader(SiteRows):
    """One site, in the words of those who use it. Raises UnknownSite."""

    def __init__(self, session: Session, name: str) -> None:
        super().__init__(session, find_site(session, name))

    def as_file(self) -> SiteFile:
        """The site as its file would say it."""
        return site_file_of(self)

    def as_scheduled(self) -> Site:
        """The site as the scheduler knows it."""
        members, lines = self.members, self.lines_of_clusters
        classes = {k.id: k.name for k in self.machine_classes}
        clusters = {c.id: c.name for c in self.clusters}
        return Site(
            name=self.site.name,
            machines=tuple(Machine(m.name, classes[m.machine_class_id]) for m in self.machines),
            clusters=tuple(
                Cluster(c.name, tuple(members[c.id]), tuple(lines[c.id]), c.least_share)
                for c in self.clusters
            ),
            interconnects=tuple(
                Interconnect(x.name, x.bandwidth_mbit_per_s, x.latency_us) for x in self.interconnects
            ),
            job_classes=tuple(
                JobClass(
                    k.name,
                    tuple(classes[p.machine_class_id] for p in self.places[k.id] if p.machine_class_id),
                    tuple(clusters[p.cluster_id] for p in self.places[k.id] if p.cluster_id),
                    tuple(self.preferred[k.id]),
                )
                for k in self.job_classes
            ),
        )

    def queue_policies(self) -> list[tuple[QueuePolicy, str | None]]:
        """The site's queues, each with the name of its own scheduler (None = the one under test)."""
        displaced, users = self.displaced, self.queue_users
        return [
            (
                QueuePolicy(
                    q.name,
                    q.priority,
                    None if q.open_to_all else frozenset(users[q.id]),
                    frozenset(displaced[q.id]),
                    MappingPolicy(q.mapping),
                ),
                q.scheduler,
            )
            for q in self.queues
        ]

    def user_policies(self) -> list[UserPolicy]:
        """What the site allows its listed users."""
        queues, rights = self.user_queues, self.rights
        return [
            UserPolicy(
                u.name,
                None if u.all_queues else frozenset(queues[u.id]),
                u.most_jobs,
                u.highest_priority,
                {
                    name: None if where is None else frozenset(where)
                    for name, where in sorted(rights[u.id].items())
                },
            )
            for u in self.users
        ]

    def layout(self) -> Layout:
        """The site as far as estimates depend on it."""
        machine_class = {k.id: index for index, k in enumerate(self.machine_classes)}
        machine = {m.name: index for index, m in enumerate(self.machines)}
        cluster = {c.id: index for index, c in enumerate(self.clusters)}
        members = self.members

        def place(row: AllowedPlaceRow) -> Place:
            if row.machine_class_id is not None:
                return Place(PlaceKind.MACHINE_CLASS, machine_class[row.machine_class_id])
            return Place(PlaceKind.CLUSTER, cluster[row.cluster_id or 0])

        return Layout(
            tuple(k.name for k in self.job_classes),
            tuple(machine),
            tuple(k.name for k in self.machine_classes),
            tuple(machine_class[m.machine_class_id] for m in self.machines),
            tuple(m.rating for m in self.machines),
            tuple(c.name for c in self.clusters),
            tuple(tuple(machine[name] for name in members[c.id]) for c in self.clusters),
            tuple({place(row): row.expected_s for row in self.places[k.id]} for k in self.job_classes),
        )
