"""The rows of one site, and what of them belongs together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

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

Row = TypeVar("Row", bound=OfSite)
Value = TypeVar("Value")


def rows_of(session: Session, row: type[Row], site_id: int) -> Sequence[Row]:
    """The rows of one kind that a site has, in site order."""
    query = select(row).where(row.site_id == site_id).order_by(row.position, row.id)
    return session.scalars(query).all()


def ids_of(session: Session, row: type[OfSite], site_id: int) -> dict[str, int]:
    """The ids of what a site has of one kind, by name, in site order."""
    query = select(row.name, row.id).where(row.site_id == site_id).order_by(row.position, row.id)
    return {one.name: one.id for one in session.execute(query)}


class SiteRows:
    """The rows of one site, each kind read once.

    What belongs to one of them is looked up by its id: the members of a cluster, the users of a queue.
    """

    def __init__(self, session: Session, site: SiteRow) -> None:
        self._session = session
        self.site = site
        self.machine_classes = rows_of(session, MachineClassRow, site.id)
        self.machines = rows_of(session, MachineRow, site.id)
        self.interconnects = rows_of(session, InterconnectRow, site.id)
        self.clusters = rows_of(session, ClusterRow, site.id)
        self.job_classes = rows_of(session, JobClassRow, site.id)
        self.queues = rows_of(session, QueueRow, site.id)
        self.users = [user for user in rows_of(session, UserRow, site.id) if user.listed]

    def _of_site(self, row: type[Any], owner: type[OfSite], leads_to: Any, *order: Any) -> Sequence[Any]:
        """The rows of a table whose column `leads_to` names something of this site."""
        query = select(row).join(owner, owner.id == leads_to).where(owner.site_id == self.site.id)
        return self._session.scalars(query.order_by(*order)).all()

    @cached_property
    def places(self) -> Mapping[int, list[AllowedPlaceRow]]:
        """Of each job class: where it may run."""
        row = AllowedPlaceRow
        rows = self._of_site(row, JobClassRow, row.job_class_id, row.id)
        return _grouped((place.job_class_id, place) for place in rows)

    @cached_property
    def preferred(self) -> Mapping[int, list[str]]:
        """Of each job class: the machine classes it prefers, the first one first."""
        row, names = PreferenceRow, {k.id: k.name for k in self.machine_classes}
        rows = self._of_site(row, JobClassRow, row.job_class_id, row.rank)
        return _grouped((wish.job_class_id, names[wish.machine_class_id]) for wish in rows)

    @cached_property
    def in_isolation(self) -> Mapping[int, list[dict[str, Any]]]:
        """Of each job class: how it was measured alone."""
        row = CharacterisationRow
        rows = self._of_site(row, JobClassRow, row.job_class_id, row.tasks)
        columns = ("tasks", "exe_s", "cpu", "memory_mb")
        return _grouped((one.job_class_id, {key: getattr(one, key) for key in columns}) for one in rows)

    @cached_property
    def contracts(self) -> Mapping[int, dict[str, Any]]:
        """Of each cluster that has one: its social contract."""
        rows = self._of_site(SocialContractRow, ClusterRow, SocialContractRow.cluster_id)
        columns = ("share", "most_jobs", "most_cpu")
        return {one.cluster_id: {key: getattr(one, key) for key in columns} for one in rows}

    @cached_property
    def members(self) -> Mapping[int, list[str]]:
        """Of each cluster: its machines, in site order."""
        row = ClusterMemberRow
        rows = self._of_site(row, ClusterRow, row.cluster_id)
        named = _in_site_order(rows, "machine_id", self.machines)
        return _grouped((member.cluster_id, name) for member, name in named)

    @cached_property
    def lines_of_clusters(self) -> Mapping[int, list[str]]:
        """Of each cluster: its interconnects, in site order."""
        row = ClusterInterconnectRow
        rows = self._of_site(row, ClusterRow, row.cluster_id)
        named = _in_site_order(rows, "interconnect_id", self.interconnects)
        return _grouped((line.cluster_id, name) for line, name in named)

    @cached_property
    def lines_of_machines(self) -> Mapping[int, list[str]]:
        """Of each machine: its interconnects, in site order."""
        row = MachineInterconnectRow
        rows = self._of_site(row, MachineRow, row.machine_id)
        named = _in_site_order(rows, "interconnect_id", self.interconnects)
        return _grouped((line.machine_id, name) for line, name in named)

    @cached_property
    def queue_users(self) -> Mapping[int, list[str]]:
        """Of each queue: who may use it."""
        row = QueueUserRow
        rows = self._of_site(row, QueueRow, row.queue_id, row.user_name)
        return _grouped((access.queue_id, access.user_name) for access in rows)

    @cached_property
    def displaced(self) -> Mapping[int, list[str]]:
        """Of each queue: the queues whose jobs it displaces, in site order."""
        row = QueueDisplacesRow
        rows = self._of_site(row, QueueRow, row.queue_id)
        named = _in_site_order(rows, "displaced_queue_id", self.queues)
        return _grouped((one.queue_id, name) for one, name in named)

    @cached_property
    def user_queues(self) -> Mapping[int, list[str]]:
        """Of each user: the queues that they may use."""
        row, names = UserQueueRow, {q.id: q.name for q in self.queues}
        rows = self._of_site(row, UserRow, row.user_id)
        return _grouped((one.user_id, names[one.queue_id]) for one in rows)

    @cached_property
    def rights(self) -> Mapping[int, Mapping[str, list[str] | None]]:
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


def _in_site_order(rows: Sequence[Any], column: str, there: Sequence[OfSite]) -> list[tuple[Any, str]]:
    """Rows in the order of what their column names, each with the name of that."""
    at = {one.id: (k, one.name) for k, one in enumerate(there)}
    ordered = sorted((at[getattr(row, column)], k) for k, row in enumerate(rows))
    return [(rows[k], name) for (_, name), k in ordered]


def _grouped(pairs: Iterable[tuple[int, Value]]) -> Mapping[int, list[Value]]:
    groups: defaultdict[int, list[Value]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups
