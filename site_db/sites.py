"""Sites of the database: as a site file, as the scheduler knows them, and as estimates need them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from scheduler.errors import UserError
from scheduler.managers.admission import UserPolicy
from scheduler.managers.queues import MappingPolicy, QueuePolicy
from scheduler.model import Cluster, Interconnect, JobClass, Machine, Site
from site_db.estimation import Layout, Place, PlaceKind
from site_db.relations import KINDS, PlainTable, site_file
from site_db.schema import SiteRow
from site_db.site_file.tables import SiteFile
from site_db.site_rows import SiteRows


class UnknownSite(UserError):
    """The database does not have the site. The message is one sentence for the user."""


def site_names(session: Session) -> Sequence[str]:
    return session.scalars(select(SiteRow.name).order_by(SiteRow.name)).all()


def only_site(session: Session) -> str:
    """The name of the only site in the database. Raises UnknownSite if there is none or several."""
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
    """One site, as a file, for the scheduler, and for estimates."""

    def __init__(self, session: Session, name: str) -> None:
        """Raises UnknownSite."""
        super().__init__(session, find_site(session, name))

    def as_file(self) -> SiteFile:
        """The site as a site file."""
        site, tables = self.site, {kind: self.tables(kind) for kind in KINDS}
        return site_file(site.name, site.description, site.only_listed_users, tables)

    def as_scheduled(self) -> Site:
        """The site as the scheduler knows it."""
        return Site(
            name=self.site.name,
            machines=tuple(Machine(m["name"], m["machine_class"]) for m in self.tables("machines")),
            clusters=tuple(
                Cluster(c["name"], tuple(c["members"]), tuple(c["interconnects"]), c["least_share"])
                for c in self.tables("clusters")
            ),
            interconnects=tuple(
                Interconnect(x["name"], x["bandwidth_mbit_per_s"], x["latency_us"])
                for x in self.tables("interconnects")
            ),
            job_classes=tuple(
                JobClass(
                    k["name"],
                    tuple(dict.fromkeys((*k["sequential_s"], *k["commands"]))),
                    tuple(dict.fromkeys((*k["parallel_s"], *k["parallel_commands"]))),
                    tuple(k["preferred"]),
                )
                for k in self.tables("job_classes")
            ),
        )

    def queue_policies(self) -> list[tuple[QueuePolicy, str | None]]:
        """The site's queues, each with the name of its own scheduler (None: the one under test)."""
        return [
            (
                QueuePolicy(
                    q["name"],
                    q["priority"],
                    _set_or_none(q["users"]),
                    frozenset(q["displaces"]),
                    MappingPolicy(q["mapping"]),
                ),
                q["scheduler"],
            )
            for q in self.tables("queues")
        ]

    def user_policies(self) -> list[UserPolicy]:
        """What the site allows its listed users."""
        return [
            UserPolicy(
                u["name"],
                _set_or_none(u["queues"]),
                u["most_jobs"],
                u["highest_priority"],
                {right["user"]: _set_or_none(right["queues"]) for right in u["may_submit_as"]},
            )
            for u in self.tables("users")
        ]

    def layout(self) -> Layout:
        """The site as far as estimates depend on it."""
        machine_classes, clusters, machines = (
            {name: index for index, name in enumerate(self.ids(kind))}
            for kind in ("machine_classes", "clusters", "machines")
        )

        def staff_s(k: PlainTable) -> dict[Place, float | None]:
            places: dict[Place, float | None] = {}
            for times_s, commands, kind, index in (
                ("sequential_s", "commands", PlaceKind.MACHINE_CLASS, machine_classes),
                ("parallel_s", "parallel_commands", PlaceKind.CLUSTER, clusters),
            ):
                for name in (*k[times_s], *k[commands]):
                    places[Place(kind, index[name])] = k[times_s].get(name)
            return places

        return Layout(
            tuple(self.ids("job_classes")),
            tuple(machines),
            tuple(machine_classes),
            tuple(machine_classes[m["machine_class"]] for m in self.tables("machines")),
            tuple(m["rating"] for m in self.tables("machines")),
            tuple(clusters),
            tuple(tuple(machines[name] for name in c["members"]) for c in self.tables("clusters")),
            tuple(staff_s(k) for k in self.tables("job_classes")),
        )


def _set_or_none(names: Sequence[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)
