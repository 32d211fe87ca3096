"""The rows of one site, read by the specifications of `relations`, and locked for a change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from site_db.relations import KINDS, Kind, PlainTable, Relation
from site_db.schema import OfSite, SiteRow


def ids_of(session: Session, row: type[OfSite], site_id: int, **values: Any) -> dict[str, int]:
    """The ids of a site's rows of one kind by name, in site order; only rows with these values, if any."""
    query = select(row.name, row.id).filter_by(site_id=site_id, **values).order_by(row.position, row.id)
    return dict(session.execute(query).all())


def locked_site(session: Session, name: str, description: str = "") -> SiteRow:
    """The row of a site to be changed; a new site if there is none of that name.

    Other writers of the site wait until the transaction ends, and recognise the change by the site's version.
    """
    new: dict[str, Any] = {"name": name, "description": description, "only_listed_users": False}
    new |= dict.fromkeys(("runs_recorded", "runs_pruned", "snapshot_at", "jobs_recorded", "version"), 0)
    insert = sqlite.insert if session.get_bind().dialect.name == "sqlite" else postgresql.insert
    session.execute(insert(SiteRow).values(**new).on_conflict_do_nothing(index_elements=["name"]))
    session.execute(update(SiteRow).where(SiteRow.name == name).values(version=SiteRow.version + 1))
    query = select(SiteRow).where(SiteRow.name == name).execution_options(populate_existing=True)
    return session.scalars(query).one()


class SiteRows:
    """The rows of one site as ids and plain tables, each kind read at its first use."""

    def __init__(self, session: Session, site: SiteRow) -> None:
        self._session = session
        self.site = site
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

    def _read(self, name: str, kind: Kind) -> list[PlainTable]:
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

    def _rows(self, name: str, kind: Kind, relation: Relation) -> Mapping[str, list[tuple[Any, ...]]]:
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
