"""Reading a site from the database: as a site file, for the scheduler, and for estimates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from scheduler import UserError
from scheduler.managers.queues import MappingPolicy, QueuePolicy, UserPolicy
from scheduler.model import Cluster, Interconnect, JobClass, Machine, Site
from site_db import store
from site_db.estimation import PlaceKind, RunPlace, SiteLayout
from site_db.files.access import Memory
from site_db.rows import ids_of
from site_db.schema import SiteRow
from site_db.site_file.machine_names import Slots, slot_names
from site_db.site_file.relations import KINDS, EntityKind, PlainTable, Relation, site_file
from site_db.site_file.tables import QueueTable, SiteFile
from site_db.site_file.validation import errors
from site_db.store import OF_DAMAGE, Address, DatabaseTrouble

BYTES_OF_A_SLOT = 1_000
"""The memory for a slot, in bytes: schedulers see each as a machine."""


def site_names(session: Session) -> Sequence[str]:
    return session.scalars(select(SiteRow.name).order_by(SiteRow.name)).all()


def site_at(session: Session, address: Address) -> str:
    """The name of the site in the address, or of the only site in the database. Raises UserError if there is
    none, or several."""
    if address.site:
        return address.site
    names = site_names(session)
    if len(names) != 1:
        which = f"it has {', '.join(names)}; add #NAME to its address" if names else "it has none"
        raise UserError(f"which site of the database is meant? {which}")
    return names[0]


def site_or_new(session: Session, name: str) -> SiteFile:
    """A site as a site file; without anything if there is none of that name."""
    if name in site_names(session):
        return SiteReader(session, name).as_file()
    return SiteFile(name=name, machine_classes=(), job_classes=())


def find_site(session: Session, name: str) -> SiteRow:
    """The row of a site. Raises UserError."""
    site = session.scalar(select(SiteRow).where(SiteRow.name == name))
    if site is None:
        known = ", ".join(site_names(session)) or "none"
        raise UserError(f"the database has no site '{name}'; it has {known}")
    return site


class SiteReader:
    """One site as ids and plain tables, as a file, for the scheduler, and for estimates.

    Each kind of things is read at its first use.
    """

    def __init__(self, session: Session, name: str) -> None:
        """Read a site. Raises UserError if it does not exist."""
        self._session = session
        self.site = find_site(session, name)
        self._ids: dict[str, dict[str, int]] = {}
        self._tables: dict[str, list[PlainTable]] = {}

    def ids(self, kind: str) -> Mapping[str, int]:
        """The ids of one kind (a key of KINDS) by name, in site order."""
        if kind not in self._ids:
            row, constants = KINDS[kind].row, KINDS[kind].constants
            self._ids[kind] = ids_of(self._session, row, self.site.id, **constants)
        return self._ids[kind]

    def tables(self, kind: str) -> Sequence[PlainTable]:
        """The tables of one kind, in site order."""
        if kind not in self._tables:
            self._tables[kind] = self._read(kind, KINDS[kind])
        return self._tables[kind]

    def _read(self, name: str, kind: EntityKind) -> list[PlainTable]:
        columns = (*kind.columns, *kind.references, *(column for column, _ in kind.unlimited))
        query = (
            select(kind.row.name, *(getattr(kind.row, column) for column in columns))
            .filter_by(site_id=self.site.id, **kind.constants)
            .order_by(kind.row.position, kind.row.id)
        )
        tables: list[PlainTable] = [dict(row._mapping) for row in self._session.execute(query)]
        for column, (key, other) in kind.references.items():
            names = self._names(other)
            for table in tables:
                table[key] = names[table.pop(column)]
        for relation in kind.relations:
            rows = self._rows(name, kind, relation)
            for table in tables:
                table |= relation.to_keys(rows.get(table["name"], ()))
        for column, key in kind.unlimited:
            for table in tables:
                if table.pop(column):
                    table[key] = None
        return tables

    def _rows(self, name: str, kind: EntityKind, relation: Relation) -> Mapping[str, list[tuple[Any, ...]]]:
        """The rows of a relation by the name of their parent, with names for ids."""
        row = relation.row
        parent_id: Any = getattr(row, relation.parent_id)
        query = (
            select(parent_id, *(getattr(row, column) for column in relation.columns))
            .join(kind.row, kind.row.id == parent_id)
            .where(kind.row.site_id == self.site.id)
        )
        if hasattr(row, "id"):
            query = query.order_by(row.id)
        parents = self._names(name)
        others = [other and self._names(other) for other in relation.columns.values()]
        found: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for parent, *values in self._session.execute(query):
            named = (v if not n or v is None else n[v] for v, n in zip(values, others, strict=True))
            found[parents[parent]].append(tuple(named))
        position = {
            other: {one: k for k, one in enumerate(self.ids(other))}
            for other in relation.columns.values()
            if other
        }
        return {parent: relation.in_order(rows, position) for parent, rows in found.items()}

    def _names(self, kind: str) -> Mapping[int, str]:
        return {id: name for name, id in self.ids(kind).items()}

    def as_file(self) -> SiteFile:
        """The site as a site file. Raises DatabaseTrouble for values that no site file can have."""
        site, tables = self.site, {kind: self.tables(kind) for kind in KINDS}
        try:
            return site_file(site, tables)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise DatabaseTrouble(
                f"the site '{site.name}' in the database cannot be used: {where}: {first['msg']}; restore "
                "the database from a copy, or import the site again"
            ) from None

    def as_scheduled(self) -> Site:
        """The site for the scheduler, which sees each slot as a machine."""
        machines = self.tables("machines")
        n_slots = sum(m["slots"] for m in machines)
        Memory(f"the {n_slots:,} slots of the site '{self.site.name}'").take(BYTES_OF_A_SLOT * n_slots)
        slots = {m["name"]: slot_names(m["name"], m["slots"]) for m in machines}
        lines, classes = self.tables("interconnects"), self.tables("job_classes")
        return Site(
            name=self.site.name,
            machines=tuple(Machine(x, m["machine_class"]) for m in machines for x in slots[m["name"]]),
            clusters=tuple(
                replace(c, members=tuple(slot for name in c.members for slot in slots[name]))
                for c in self.clusters()
            ),
            interconnects=tuple(
                Interconnect(x["name"], x["bandwidth_mbit_per_s"], x["latency_us"]) for x in lines
            ),
            job_classes=tuple(
                JobClass(
                    k["name"],
                    tuple(dict.fromkeys((*k["sequential_s"], *k["commands"]))),
                    tuple(dict.fromkeys((*k["parallel_s"], *k["parallel_commands"]))),
                    tuple(k["preferred"]),
                )
                for k in classes
            ),
        )

    def clusters(self) -> tuple[Cluster, ...]:
        """The clusters, with their machines as members."""
        return tuple(
            Cluster(c["name"], tuple(c["members"]), tuple(c["interconnects"]), c["least_share"])
            for c in self.tables("clusters")
        )

    def queue_policies(self) -> list[tuple[QueuePolicy, str | None]]:
        """The site's queues, each with the name of its own scheduler (None: the one under test)."""
        return [(queue_policy(QueueTable(**q)), q["scheduler"]) for q in self.tables("queues")]

    def user_policies(self) -> list[UserPolicy]:
        """The limits of the listed users."""
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

    def layout(self) -> SiteLayout:
        """The site for estimates."""
        machine_classes, clusters, machines = (
            {name: index for index, name in enumerate(self.ids(kind))}
            for kind in ("machine_classes", "clusters", "machines")
        )
        there, groups = self.tables("machines"), self.tables("clusters")
        slots = {m["name"]: m["slots"] for m in there}

        kinds = (
            (PlaceKind.MACHINE_CLASS, machine_classes, "sequential_s", "commands"),
            (PlaceKind.CLUSTER, clusters, "parallel_s", "parallel_commands"),
        )

        def staff_s(k: PlainTable) -> dict[RunPlace, float | None]:
            return {
                RunPlace(kind, places[name]): k[times_s].get(name)
                for kind, places, times_s, commands in kinds
                for name in (*k[times_s], *k[commands])
            }

        return SiteLayout(
            tuple(self.ids("job_classes")),
            tuple(machines),
            tuple(machine_classes),
            tuple(machine_classes[m["machine_class"]] for m in there),
            tuple(m["rating"] for m in there),
            tuple(clusters),
            tuple(tuple(machines[name] for name in c["members"]) for c in groups),
            tuple(staff_s(k) for k in self.tables("job_classes")),
            # Members of a cluster have equally many slots (see `validation`).
            Slots(
                tuple(slots.values()),
                tuple(max((slots[name] for name in c["members"]), default=1) for c in groups),
            ),
        )


def queue_policy(table: QueueTable) -> QueuePolicy:
    return QueuePolicy(
        table.name,
        table.priority,
        _set_or_none(table.users),
        frozenset(table.displaces),
        MappingPolicy(table.mapping),
    )


def _set_or_none(names: Sequence[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


@contextmanager
def opened(address: Address, is_changed: bool = False) -> Iterator[Session]:
    """As `store.opened`; errors that follow from contradictions are DatabaseTrouble, too."""
    try:
        with store.opened(address, is_changed) as session:
            yield session
    except UserError:
        raise
    except OF_DAMAGE as error:
        found = None
        with suppress(UserError, *OF_DAMAGE), store.opened(address) as session:
            file = SiteReader(session, site_at(session, address)).as_file()
            found = next((sentence for _, sentence in errors(file)), None)
        if found is None:
            raise
        raise DatabaseTrouble(
            f"{address}: the site contradicts itself: {found} (see `sil db check`)"
        ) from error
