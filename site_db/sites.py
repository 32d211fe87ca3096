"""Sites in the database, read: as the scheduler knows them, and as a site file says them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from scheduler.admission import UserPolicy
from scheduler.model import Cluster, Interconnect, JobClass, Machine, Site
from scheduler.queues import MappingPolicy, QueuePolicy
from site_db.estimation import Layout, Place, PlaceKind
from site_db.schema import (
    AllowedPlaceRow,
    CharacterisationRow,
    ClusterInterconnectRow,
    ClusterMemberRow,
    ClusterRow,
    InterconnectRow,
    JobClassRow,
    MachineClassRow,
    MachineInterconnectRow,
    MachineRow,
    PreferenceRow,
    QueueDisplacesRow,
    QueueRow,
    QueueUserRow,
    SiteRow,
    SocialContractRow,
    SubmissionRightRow,
    UserQueueRow,
    UserRow,
)
from site_db.schema.resources import OfSite
from site_db.site_file import SiteFile

Row = TypeVar("Row", bound=OfSite)
Value = TypeVar("Value")


class UnknownSite(ValueError):
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


def rows_of(session: Session, row: type[Row], site_id: int) -> Sequence[Row]:
    """The rows of one kind that a site has, in site order."""
    query = select(row).where(row.site_id == site_id).order_by(row.position, row.id)
    return session.scalars(query).all()


def ids_of(session: Session, row: type[OfSite], site_id: int) -> dict[str, int]:
    """The ids of what a site has of one kind, by name, in site order."""
    query = select(row.name, row.id).where(row.site_id == site_id).order_by(row.position, row.id)
    return {one.name: one.id for one in session.execute(query)}


class SiteReader:
    """The rows of one site, each kind read once. Raises UnknownSite."""

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self.site = find_site(session, name)
        self.machine_classes = rows_of(session, MachineClassRow, self.site.id)
        self.machines = rows_of(session, MachineRow, self.site.id)
        self.interconnects = rows_of(session, InterconnectRow, self.site.id)
        self.clusters = rows_of(session, ClusterRow, self.site.id)
        self.job_classes = rows_of(session, JobClassRow, self.site.id)
        self.queues = rows_of(session, QueueRow, self.site.id)
        self.users = [user for user in rows_of(session, UserRow, self.site.id) if user.listed]

    # -- as the scheduler knows it --------------------------------------------------------------------------

    def as_scheduled(self) -> Site:
        """The site as the scheduler knows it."""
        members, lines = self._members, self._lines_of_clusters
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
                    tuple(classes[p.machine_class_id] for p in self._places[k.id] if p.machine_class_id),
                    tuple(clusters[p.cluster_id] for p in self._places[k.id] if p.cluster_id),
                    tuple(self._preferred[k.id]),
                )
                for k in self.job_classes
            ),
        )

    def queue_policies(self) -> list[tuple[QueuePolicy, str | None]]:
        """The site's queues, each with the name of its own scheduler (None = the one under test)."""
        displaced, users = self._displaced, self._queue_users
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
        queues, rights = self._user_queues, self._rights
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
        members = self._members

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
            tuple({place(row): row.expected_s for row in self._places[k.id]} for k in self.job_classes),
        )

    # -- as a site file says it -----------------------------------------------------------------------------

    def as_file(self) -> SiteFile:
        """The site as its file would say it."""
        members, lines = self._members, self._lines_of_clusters
        displaced, queue_users = self._displaced, self._queue_users
        return SiteFile.model_validate(
            {
                "name": self.site.name,
                "description": self.site.description,
                "only_listed_users": self.site.only_listed_users,
                "machine_classes": [
                    {"name": k.name, "architecture": k.architecture} for k in self.machine_classes
                ],
                "machines": self._groups_of_machines(),
                "interconnects": [
                    {
                        "name": x.name,
                        "bandwidth_mbit_per_s": x.bandwidth_mbit_per_s,
                        "latency_us": x.latency_us,
                    }
                    for x in self.interconnects
                ],
                "clusters": [
                    {
                        "name": c.name,
                        "members": members[c.id],
                        "interconnects": lines[c.id],
                        "least_share": c.least_share,
                        "social_contract": self._contracts.get(c.id),
                    }
                    for c in self.clusters
                ],
                "job_classes": [self._job_class_table(k) for k in self.job_classes],
                "queues": [
                    {
                        "name": q.name,
                        "priority": q.priority,
                        "scheduler": q.scheduler,
                        "mapping": q.mapping,
                        "users": None if q.open_to_all else queue_users[q.id],
                        "displaces": displaced[q.id],
                    }
                    for q in self.queues
                ],
                "users": self._user_tables(),
            }
        ).in_site_order()

    def _groups_of_machines(self) -> list[dict[str, Any]]:
        classes = {k.id: k.name for k in self.machine_classes}
        lines = self._lines_of_machines

        def specification(m: MachineRow) -> dict[str, Any]:
            return {
                "machine_class": classes[m.machine_class_id],
                "processors": m.processors,
                "memory_mb": m.memory_mb,
                "storage_gb": m.storage_gb,
                "os": m.os,
                "rating": m.rating,
                "interconnects": lines[m.id],
                "notional": m.notional,
            }

        return [
            {"names": [m.name for m in group], **common}
            for common, group in groupby(self.machines, specification)
        ]

    def _job_class_table(self, k: JobClassRow) -> dict[str, Any]:
        classes = {one.id: one.name for one in self.machine_classes}
        clusters = {one.id: one.name for one in self.clusters}
        table: dict[str, Any] = {
            "name": k.name,
            "description": k.description,
            "size": k.size,
            "network_mbit_per_s": k.network_mbit_per_s,
            "preferred": self._preferred[k.id],
            "in_isolation": self._in_isolation[k.id],
        }
        for place in self._places[k.id]:
            if place.machine_class_id is not None:
                where, times, commands = classes[place.machine_class_id], "sequential_s", "commands"
            else:
                where, times, commands = clusters[place.cluster_id or 0], "parallel_s", "parallel_commands"
            if place.expected_s is not None:
                table.setdefault(times, {})[where] = place.expected_s
            if place.command_line is not None:
                table.setdefault(commands, {})[where] = place.command_line
        return table

    def _user_tables(self) -> list[dict[str, Any]]:
        queues, rights = self._user_queues, self._rights
        return [
            {
                "name": u.name,
                "queues": None if u.all_queues else queues[u.id],
                "most_jobs": u.most_jobs,
                "highest_priority": u.highest_priority,
                "may_submit_as": [
                    {"user": name, "queues": where} for name, where in sorted(rights[u.id].items())
                ],
            }
            for u in self.users
        ]

    # -- what belongs together ------------------------------------------------------------------------------

    def _of_site(self, row: type[Any], owner: type[OfSite], leads_to: Any, *order: Any) -> Sequence[Any]:
        """The rows of a table whose column `leads_to` names something of this site."""
        query = select(row).join(owner, owner.id == leads_to).where(owner.site_id == self.site.id)
        return self._session.scalars(query.order_by(*order)).all()

    @cached_property
    def _places(self) -> Mapping[int, list[AllowedPlaceRow]]:
        row = AllowedPlaceRow
        rows = self._of_site(row, JobClassRow, row.job_class_id, row.id)
        return _grouped((place.job_class_id, place) for place in rows)

    @cached_property
    def _preferred(self) -> Mapping[int, list[str]]:
        row, names = PreferenceRow, {k.id: k.name for k in self.machine_classes}
        rows = self._of_site(row, JobClassRow, row.job_class_id, row.rank)
        return _grouped((wish.job_class_id, names[wish.machine_class_id]) for wish in rows)

    @cached_property
    def _in_isolation(self) -> Mapping[int, list[dict[str, Any]]]:
        row = CharacterisationRow
        rows = self._of_site(row, JobClassRow, row.job_class_id, row.tasks)
        columns = ("tasks", "exe_s", "cpu", "memory_mb")
        return _grouped((one.job_class_id, {key: getattr(one, key) for key in columns}) for one in rows)

    @cached_property
    def _contracts(self) -> Mapping[int, dict[str, Any]]:
        rows = self._of_site(SocialContractRow, ClusterRow, SocialContractRow.cluster_id)
        columns = ("share", "most_jobs", "most_cpu")
        return {one.cluster_id: {key: getattr(one, key) for key in columns} for one in rows}

    @cached_property
    def _members(self) -> Mapping[int, list[str]]:
        row, at = ClusterMemberRow, {m.id: (k, m.name) for k, m in enumerate(self.machines)}
        rows = self._of_site(row, ClusterRow, row.cluster_id)
        return _grouped(
            (member.cluster_id, at[member.machine_id][1])
            for member in sorted(rows, key=lambda member: at[member.machine_id])
        )

    @cached_property
    def _lines_of_clusters(self) -> Mapping[int, list[str]]:
        row = ClusterInterconnectRow
        rows = self._of_site(row, ClusterRow, row.cluster_id)
        return _grouped((line.cluster_id, name) for line, name in self._in_order_of_lines(rows))

    @cached_property
    def _lines_of_machines(self) -> Mapping[int, list[str]]:
        row = MachineInterconnectRow
        rows = self._of_site(row, MachineRow, row.machine_id)
        return _grouped((line.machine_id, name) for line, name in self._in_order_of_lines(rows))

    def _in_order_of_lines(self, rows: Sequence[Any]) -> list[tuple[Any, str]]:
        at = {x.id: (k, x.name) for k, x in enumerate(self.interconnects)}
        ordered = sorted(rows, key=lambda line: at[line.interconnect_id])
        return [(line, at[line.interconnect_id][1]) for line in ordered]

    @cached_property
    def _queue_users(self) -> Mapping[int, list[str]]:
        row = QueueUserRow
        rows = self._of_site(row, QueueRow, row.queue_id, row.user_name)
        return _grouped((access.queue_id, access.user_name) for access in rows)

    @cached_property
    def _displaced(self) -> Mapping[int, list[str]]:
        row, at = QueueDisplacesRow, {q.id: (k, q.name) for k, q in enumerate(self.queues)}
        rows = self._of_site(row, QueueRow, row.queue_id)
        return _grouped(
            (one.queue_id, at[one.displaced_queue_id][1])
            for one in sorted(rows, key=lambda one: at[one.displaced_queue_id])
        )

    @cached_property
    def _user_queues(self) -> Mapping[int, list[str]]:
        row, names = UserQueueRow, {q.id: q.name for q in self.queues}
        rows = self._of_site(row, UserRow, row.user_id)
        return _grouped((one.user_id, names[one.queue_id]) for one in rows)

    @cached_property
    def _rights(self) -> Mapping[int, Mapping[str, list[str] | None]]:
        """Of each user: in whose name they may submit, and to which queues (None = all)."""
        row, queues = SubmissionRightRow, {q.id: q.name for q in self.queues}
        users = {u.id: u.name for u in self.users}
        rights: defaultdict[int, dict[str, list[str] | None]] = defaultdict(dict)
        for right in self._of_site(row, UserRow, row.user_id, row.id):
            where = rights[right.user_id].setdefault(users[right.as_user_id], [])
            if right.queue_id is None or where is None:
                rights[right.user_id][users[right.as_user_id]] = None
            else:
                where.append(queues[right.queue_id])
        return rights


def _grouped(pairs: Iterable[tuple[int, Value]]) -> Mapping[int, list[Value]]:
    groups: defaultdict[int, list[Value]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups
