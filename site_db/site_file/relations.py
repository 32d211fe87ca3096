"""The kinds and the relations of a site, each specified once: its rows and its keys in a site file.

Columns and references follow from the schema. `SiteReader` reads a site by these specifications, `importing`
writes one, and `validation` checks names. In between, a site is a set of plain tables: dictionaries with the
keys of the site file, listed by kind, with one dictionary per machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Column

from site_db import schema
from site_db.files.toml_file import Table
from site_db.site_file import tables
from site_db.site_file.tables import SiteFile

PlainTable = dict[str, Any]
PlainSite = Mapping[str, Sequence[PlainTable]]
"""The tables of a site by kind (a key of KINDS), in site order."""
Values = tuple[Any, ...]


@dataclass(frozen=True)
class Relation:
    """Rows that belong to one parent, to which their first foreign key leads.

    `names` are the keys of the site file that hold names, each with the kind that these are of (None: of
    nothing in the file). `to_rows` takes the values of `columns` from the parent's table, with names for ids;
    `to_keys` is its inverse. Rows are in site order: by the positions of what they name, and by plain values;
    unless `is_ordered`, in the order of the file. `unlimited` is a column of the parent, true where a key is
    absent, and that key.
    """

    row: type[schema.Base]
    names: Mapping[str, str | None]
    to_rows: Callable[[PlainTable], Iterable[Values]]
    to_keys: Callable[[Sequence[Values]], PlainTable]
    unlimited: tuple[str, str] | None = None
    is_ordered: bool = True

    @cached_property
    def parent_id(self) -> str:
        return next(column.key for column in _columns(self.row) if column.foreign_keys)

    @cached_property
    def columns(self) -> Mapping[str, str | None]:
        """All columns but the parent's id, each with the kind whose id it holds (None: a plain value)."""
        columns = [x for x in _columns(self.row) if x.key not in ("id", self.parent_id)]
        return {column.key: _kind_of_id(column) for column in columns}

    def in_order(self, rows: Iterable[Values], position: Mapping[str, Mapping[str, int]]) -> list[Values]:
        """`rows` in site order; `position` is that of every name, by kind."""

        def place(row: Values) -> Values:
            kinds = zip(row, self.columns.values(), strict=True)
            return tuple(-1 if v is None else position[kind][v] if kind else v for v, kind in kinds)

        return sorted(rows, key=place) if self.is_ordered else list(rows)


@dataclass(frozen=True)
class EntityKind:
    """What a site has several of, each with a name: one array of tables in a site file, one table of rows.

    `constants` are values of those rows only that the file lists.
    """

    singular: str
    row: type[schema.OfSite]
    table: type[Table]
    relations: tuple[Relation, ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def columns(self) -> list[str]:
        """Columns that are keys of the file as well."""
        keys = [column.key for column in _columns(self.row)]
        return [key for key in keys if key in self.table.model_fields and key != "name"]

    @cached_property
    def references(self) -> dict[str, tuple[str, str]]:
        """Columns that hold ids, each with its key and the kind that it names."""
        kinds = {column.key: _kind_of_id(column) for column in _columns(self.row)}
        return {column: (column.removesuffix("_id"), kind) for column, kind in kinds.items() if kind}

    @property
    def unlimited(self) -> list[tuple[str, str]]:
        """Columns that are true where a key is absent, each with this key."""
        return [relation.unlimited for relation in self.relations if relation.unlimited]


def _columns(row: type[schema.Base] | type[schema.OfSite]) -> Sequence[Column[Any]]:
    table: Any = row.__table__  # type: ignore[union-attr]
    return tuple(table.columns)


def _kind_of_id(column: Column[Any]) -> str | None:
    named = {key.column.table for key in column.foreign_keys if key.column.key == "id"}
    return next((name for name, kind in KINDS.items() if kind.row.__table__ in named), None)  # type: ignore[attr-defined]


def _names(key: str, row: type[schema.Base], kind: str | None, unlimited: str | None = None) -> Relation:
    """An array of names."""
    return Relation(
        row,
        {key: kind},
        lambda table: ((name,) for name in table[key] or ()),
        lambda rows: {key: [name for (name,) in rows]},
        (unlimited, key) if unlimited else None,
    )


def _amounts(key: str, row: type[schema.Base]) -> Relation:
    """A table of amounts by name."""
    return Relation(row, {}, lambda table: table[key].items(), lambda rows: {key: dict(rows)})


def _tables(key: str, row: type[schema.Base], table: type[Table], most: int | None = None) -> Relation:
    """An array of tables of plain values; with `most` of one, a table or None."""
    columns = [*table.model_fields]

    def to_rows(parent: PlainTable) -> Iterable[Values]:
        found = parent[key] if most is None else filter(None, [parent[key]])
        return (tuple(one[column] for column in columns) for one in found)

    def to_keys(rows: Sequence[Values]) -> PlainTable:
        found = [dict(zip(columns, values, strict=True)) for values in rows]
        return {key: found if most is None else next(iter(found), None)}

    return Relation(row, {}, to_rows, to_keys)


def _rows_of_places(table: PlainTable) -> Iterable[Values]:
    for times_s, commands, is_cluster in _ALLOWED:
        for name in dict.fromkeys((*table[times_s], *table[commands])):
            where = (None, name) if is_cluster else (name, None)
            yield *where, table[commands].get(name), table[times_s].get(name)


def _keys_of_places(rows: Sequence[Values]) -> PlainTable:
    keys: PlainTable = {key: {} for times_s, commands, _ in _ALLOWED for key in (times_s, commands)}
    for machine_class, cluster, command, expected_s in rows:
        times_s, commands, _ = _ALLOWED[machine_class is None]
        for key, value in ((times_s, expected_s), (commands, command)):
            if value is not None:
                keys[key][machine_class or cluster] = value
    return keys


_ALLOWED = (("sequential_s", "commands", False), ("parallel_s", "parallel_commands", True))
_PLACES = {
    key: "clusters" if is_cluster else "machine_classes"
    for times_s, commands, is_cluster in _ALLOWED
    for key in (times_s, commands)
}


def _keys_of_rights(rows: Sequence[Values]) -> PlainTable:
    queues: defaultdict[str, list[str | None]] = defaultdict(list)
    for user, queue in rows:
        queues[user].append(queue)
    rights = [(user, None if None in some else some) for user, some in sorted(queues.items())]
    return {"may_submit_as": [{"user": user, "queues": some} for user, some in rights]}


KINDS: Mapping[str, EntityKind] = {
    "interconnects": EntityKind("interconnect", schema.InterconnectRow, tables.InterconnectTable),
    "machine_classes": EntityKind("machine class", schema.MachineClassRow, tables.MachineClassTable),
    "machines": EntityKind(
        "machine",
        schema.MachineRow,
        tables.MachinesTable,
        (
            _names("interconnects", schema.MachineInterconnectRow, "interconnects"),
            _amounts("gpus", schema.MachineGpuRow),
            _amounts("resources", schema.MachineResourceRow),
            _names("features", schema.MachineFeatureRow, None),
        ),
    ),
    "clusters": EntityKind(
        "cluster",
        schema.ClusterRow,
        tables.ClusterTable,
        (
            _names("members", schema.ClusterMemberRow, "machines"),
            _names("interconnects", schema.ClusterInterconnectRow, "interconnects"),
            _tables("social_contract", schema.SocialContractRow, tables.SocialContractTable, most=1),
        ),
    ),
    "partitions": EntityKind(
        "partition",
        schema.PartitionRow,
        tables.PartitionTable,
        (_names("nodes", schema.PartitionNodeRow, "machines"),),
    ),
    "site_resources": EntityKind("site resource", schema.SiteResourceRow, tables.SiteResourceTable),
    "job_classes": EntityKind(
        "job class",
        schema.JobClassRow,
        tables.JobClassTable,
        (
            Relation(schema.AllowedPlaceRow, _PLACES, _rows_of_places, _keys_of_places, is_ordered=False),
            _tables("in_isolation", schema.CharacterisationRow, tables.InIsolationTable),
            Relation(
                schema.PreferenceRow,
                {"preferred": "machine_classes"},
                lambda table: ((name, rank) for rank, name in enumerate(table["preferred"])),
                lambda rows: {"preferred": [name for name, _ in sorted(rows, key=itemgetter(1))]},
                is_ordered=False,
            ),
            _tables("request", schema.RequestRow, tables.RequestTable, most=1),
            _tables("data", schema.JobClassDataRow, tables.DataTable, most=1),
        ),
    ),
    "queues": EntityKind(
        "queue",
        schema.QueueRow,
        tables.QueueTable,
        (
            _names("users", schema.QueueUserRow, None, unlimited="open_to_all"),
            _names("displaces", schema.QueueDisplacesRow, "queues"),
        ),
    ),
    "users": EntityKind(
        "user",
        schema.UserRow,
        tables.UserTable,
        (
            _names("queues", schema.UserQueueRow, "queues", unlimited="all_queues"),
            Relation(
                schema.SubmissionRightRow,
                {},
                lambda user: (
                    (right["user"], queue)
                    for right in user["may_submit_as"]
                    for queue in ((None,) if right["queues"] is None else right["queues"])
                ),
                _keys_of_rights,
            ),
        ),
        constants={"listed": True},
    ),
}
"""The kinds of a site, each after those that it names."""


def plain_site(file: SiteFile) -> PlainSite:
    """The site of a file as plain tables."""
    data = file.model_dump(include={*KINDS})
    data["machines"] = [
        {"name": name, **{key: value for key, value in group.items() if key != "names"}}
        for group in data["machines"]
        for name in group["names"]
    ]
    return data


def site_file(of: SiteFile | schema.SiteRow, site: PlainSite) -> SiteFile:
    """The inverse of `plain_site`, with what is no list of a file or row: adjacent machines of one
    specification form a group."""

    def specification(machine: PlainTable) -> PlainTable:
        return {key: value for key, value in machine.items() if key != "name"}

    groups = [
        {"names": [machine["name"] for machine in group], **common}
        for common, group in groupby(site["machines"], specification)
    ]
    head = {key: getattr(of, key) for key in SiteFile.model_fields if key not in KINDS}
    return SiteFile.model_validate({**head, **site, "machines": groups})


def in_site_order(file: SiteFile) -> SiteFile:
    """The normal form of a site file: whatever may be written in any order is in site order, and adjacent
    groups of machines with one specification are one group. Every name in `file` must exist."""
    site = plain_site(file)
    position = {kind: {table["name"]: k for k, table in enumerate(some)} for kind, some in site.items()}
    for kind, plain_tables in site.items():
        for relation in KINDS[kind].relations:
            for table in plain_tables:
                absent = relation.unlimited and table[relation.unlimited[1]] is None
                if relation.is_ordered and not absent:
                    table |= relation.to_keys(relation.in_order(relation.to_rows(table), position))
    return site_file(file, site)
