"""The relations of a site, each specified once: its table and its part of a site file.

`SiteRows` reads a site by these specifications and `importing` writes one. In between, a site is a set of
plain tables: dictionaries with the keys of the site file, listed by kind, with one dictionary per machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from site_db.schema import (
    AllowedPlaceRow,
    Base,
    CharacterisationRow,
    ClusterInterconnectRow,
    ClusterMemberRow,
    ClusterRow,
    InterconnectRow,
    JobClassRow,
    MachineClassRow,
    MachineInterconnectRow,
    MachineRow,
    OfSite,
    PreferenceRow,
    QueueDisplacesRow,
    QueueRow,
    QueueUserRow,
    SocialContractRow,
    SubmissionRightRow,
    UserQueueRow,
    UserRow,
)
from site_db.site_file.tables import SiteFile

PlainTable = dict[str, Any]
PlainSite = Mapping[str, Sequence[PlainTable]]
"""The tables of a site by kind (a key of KINDS), in site order."""
Values = tuple[Any, ...]


@dataclass(frozen=True)
class Relation:
    """Rows that belong to one parent.

    `columns` are all columns but the parent's id, each with the kind whose id it holds (None: a plain value).
    `to_rows` takes their values from the parent's table, with names for ids; `to_keys` is its inverse. Rows
    are in site order: by the positions of what they name, and by plain values; unless `is_ordered`, in the
    order of the file. `unlimited` is a column of the parent, true where a key is absent, and that key.
    """

    row: type[Base]
    parent_id: str
    columns: Mapping[str, str | None]
    to_rows: Callable[[PlainTable], Iterable[Values]]
    to_keys: Callable[[Sequence[Values]], PlainTable]
    unlimited: tuple[str, str] | None = None
    is_ordered: bool = True

    def in_order(self, rows: Iterable[Values], position: Mapping[str, Mapping[str, int]]) -> list[Values]:
        """`rows` in site order; `position` is that of every name, by kind."""
        if not self.is_ordered:
            return list(rows)

        def place(row: Values) -> Values:
            kinds = zip(row, self.columns.values(), strict=True)
            return tuple(-1 if v is None else position[kind][v] if kind else v for v, kind in kinds)

        return sorted(rows, key=place)


@dataclass(frozen=True)
class Kind:
    """What a site has several of, each with a name: one array of tables in a site file, one table of rows.

    `columns` are keys of the file as well; `references` are columns that hold ids, each with its key and the
    kind that it names; `constants` are true of those rows only that the file lists.
    """

    singular: str
    row: type[OfSite]
    columns: tuple[str, ...] = ()
    references: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    relations: tuple[Relation, ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unlimited(self) -> list[tuple[str, str]]:
        """Columns that are true where a key is absent, each with this key."""
        return [relation.unlimited for relation in self.relations if relation.unlimited]


def _names(
    key: str, row: type[Base], parent_id: str, column: str, kind: str | None, unlimited: str | None = None
) -> Relation:
    """An array of names."""
    return Relation(
        row,
        parent_id,
        {column: kind},
        lambda table: ((name,) for name in table[key] or ()),
        lambda rows: {key: [name for (name,) in rows]},
        (unlimited, key) if unlimited else None,
    )


def _preferences(key: str, row: type[Base], parent_id: str, column: str, kind: str) -> Relation:
    """An array of names whose order counts."""
    return Relation(
        row,
        parent_id,
        {"rank": None, column: kind},
        lambda table: enumerate(table[key]),
        lambda rows: {key: [name for _, name in rows]},
    )


def _tables(key: str, row: type[Base], parent_id: str, *columns: str) -> Relation:
    """An array of tables of plain values."""
    return Relation(
        row,
        parent_id,
        dict.fromkeys(columns),
        lambda table: (tuple(one[column] for column in columns) for one in table[key]),
        lambda rows: {key: [dict(zip(columns, values, strict=True)) for values in rows]},
    )


def _table_or_none(key: str, row: type[Base], parent_id: str, *columns: str) -> Relation:
    array = _tables(key, row, parent_id, *columns)
    return Relation(
        row,
        parent_id,
        array.columns,
        lambda table: array.to_rows({key: [table[key]] if table[key] else ()}),
        lambda rows: {key: next(iter(array.to_keys(rows)[key]), None)},
    )


def _places_of_job_class(table: PlainTable) -> Iterable[Values]:
    for times_s, commands, is_cluster in _ALLOWED:
        for name in dict.fromkeys((*table[times_s], *table[commands])):
            where = (None, name) if is_cluster else (name, None)
            yield *where, table[times_s].get(name), table[commands].get(name)


def _keys_of_places(rows: Sequence[Values]) -> PlainTable:
    keys: PlainTable = {key: {} for times_s, commands, _ in _ALLOWED for key in (times_s, commands)}
    for machine_class, cluster, expected_s, command in rows:
        times_s, commands, _ = _ALLOWED[machine_class is None]
        for key, value in ((times_s, expected_s), (commands, command)):
            if value is not None:
                keys[key][machine_class or cluster] = value
    return keys


_ALLOWED = (("sequential_s", "commands", False), ("parallel_s", "parallel_commands", True))


def _rights_of_user(table: PlainTable) -> Iterable[Values]:
    for right in table["may_submit_as"]:
        for queue in (None,) if right["queues"] is None else right["queues"]:
            yield right["user"], queue


def _keys_of_rights(rows: Sequence[Values]) -> PlainTable:
    queues: defaultdict[str, list[str | None]] = defaultdict(list)
    for user, queue in rows:
        queues[user].append(queue)
    return {
        "may_submit_as": [
            {"user": user, "queues": None if None in some else some} for user, some in sorted(queues.items())
        ]
    }


KINDS: Mapping[str, Kind] = {
    "interconnects": Kind("interconnect", InterconnectRow, ("bandwidth_mbit_per_s", "latency_us")),
    "machine_classes": Kind("machine class", MachineClassRow, ("architecture",)),
    "machines": Kind(
        "machine",
        MachineRow,
        ("processors", "memory_mb", "storage_gb", "os", "rating", "notional"),
        {"machine_class_id": ("machine_class", "machine_classes")},
        (_names("interconnects", MachineInterconnectRow, "machine_id", "interconnect_id", "interconnects"),),
    ),
    "clusters": Kind(
        "cluster",
        ClusterRow,
        ("least_share",),
        relations=(
            _names("members", ClusterMemberRow, "cluster_id", "machine_id", "machines"),
            _names("interconnects", ClusterInterconnectRow, "cluster_id", "interconnect_id", "interconnects"),
            _table_or_none(
                "social_contract", SocialContractRow, "cluster_id", "share", "most_jobs", "most_cpu"
            ),
        ),
    ),
    "job_classes": Kind(
        "job class",
        JobClassRow,
        ("description", "size", "network_mbit_per_s"),
        relations=(
            Relation(
                AllowedPlaceRow,
                "job_class_id",
                {
                    "machine_class_id": "machine_classes",
                    "cluster_id": "clusters",
                    "expected_s": None,
                    "command_line": None,
                },
                _places_of_job_class,
                _keys_of_places,
                is_ordered=False,
            ),
            _tables(
                "in_isolation", CharacterisationRow, "job_class_id", "tasks", "exe_s", "cpu", "memory_mb"
            ),
            _preferences("preferred", PreferenceRow, "job_class_id", "machine_class_id", "machine_classes"),
        ),
    ),
    "queues": Kind(
        "queue",
        QueueRow,
        ("priority", "scheduler", "mapping"),
        relations=(
            _names("users", QueueUserRow, "queue_id", "user_name", None, unlimited="open_to_all"),
            _names("displaces", QueueDisplacesRow, "queue_id", "displaced_queue_id", "queues"),
        ),
    ),
    "users": Kind(
        "user",
        UserRow,
        ("most_jobs", "highest_priority"),
        relations=(
            _names("queues", UserQueueRow, "user_id", "queue_id", "queues", unlimited="all_queues"),
            Relation(
                SubmissionRightRow,
                "user_id",
                {"as_user_id": "users", "queue_id": "queues"},
                _rights_of_user,
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


def site_file(name: str, description: str, only_listed_users: bool, site: PlainSite) -> SiteFile:
    """The inverse of `plain_site`: adjacent machines of one specification form a group."""

    def specification(machine: PlainTable) -> PlainTable:
        return {key: value for key, value in machine.items() if key != "name"}

    groups = [
        {"names": [machine["name"] for machine in group], **common}
        for common, group in groupby(site["machines"], specification)
    ]
    head = {"name": name, "description": description, "only_listed_users": only_listed_users}
    return SiteFile.model_validate({**head, **site, "machines": groups})


def in_site_order(file: SiteFile) -> SiteFile:
    """The normal form of a site file: whatever may be written in any order is in site order, and adjacent
    groups of machines with one specification are one group. Every name in `file` must exist."""
    site = plain_site(file)
    position = {kind: {table["name"]: k for k, table in enumerate(tables)} for kind, tables in site.items()}
    for kind, tables in site.items():
        for relation in KINDS[kind].relations:
            for table in tables:
                absent = relation.unlimited and table[relation.unlimited[1]] is None
                if relation.is_ordered and not absent:
                    table |= relation.to_keys(relation.in_order(relation.to_rows(table), position))
    return site_file(file.name, file.description, file.only_listed_users, site)
