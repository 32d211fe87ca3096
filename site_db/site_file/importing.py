"""Site files: read, put into a database as a new site or the next version of one, and written from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit
from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from scheduler.messages import UserError, counted, printable
from site_db import schema
from site_db.files import toml_file
from site_db.files.toml_file import Location
from site_db.rows import ids_of, locked_site
from site_db.site_file import machine_names, validation
from site_db.site_file.relations import KINDS, EntityKind, PlainTable, Relation, in_site_order, plain_site
from site_db.site_file.tables import SiteFile

Ids = Mapping[str, Mapping[str, int]]
"""The ids of a site by kind and name."""


class SiteConflict(UserError):
    """The file contradicts the database. The message is one sentence for the user; `place` is the location in
    the file, empty for something that the file lacks."""

    def __init__(self, place: Location, sentence: str) -> None:
        super().__init__(sentence)
        self.place = place


def put_site(session: Session, file: SiteFile, experienced: Collection[str] = ()) -> schema.SiteRow:
    """Create the site of a file, or update the site of that name, which keeps its history and jobs.

    Things that are not in the file are removed. Raises SiteConflict if history or jobs refer to them, and for
    a job class without any time in file or history, unless it is one of `experienced`, whose statistics the
    caller adds afterwards.
    """
    site = locked_site(session, file.name)
    for key, value in file.model_dump(mode="json", exclude={*KINDS}).items():
        setattr(site, key, value)
    session.flush()
    before = {name: ids_of(session, kind.row, site.id) for name, kind in KINDS.items()}
    _check_history(session, site, file, before)
    tables = plain_site(file)
    ids: dict[str, Mapping[str, int]] = {}
    _reset_moved_machines(session, site, tables["machines"], before)
    # Users remain because of their jobs; one who is not in the file has no limits.
    unlisted = {"listed": False, "all_queues": True, "most_jobs": None, "highest_priority": None}
    users = update(schema.UserRow).where(schema.UserRow.site_id == site.id).values(unlisted)
    session.execute(users.execution_options(synchronize_session=False))
    for name, kind in KINDS.items():
        ids[name] = _put_rows(session, site.id, kind, tables[name], ids, before[name])
    for name, kind in KINDS.items():
        for relation in kind.relations:
            _replace_rows(session, site.id, name, relation, tables[name], ids)
    # Last, since remaining rows may have referred to rows that are removed.
    for name in reversed([*KINDS]):
        if name != "users":
            removed = [id for one, id in before[name].items() if one not in ids[name]]
            _delete(session, KINDS[name].row, "id", removed)
    with_history = set(session.scalars(select(schema.ExecutionStatisticsRow.job_class_id).distinct()))
    for n, k in enumerate(file.job_classes):
        has_time = k.sequential_s or k.parallel_s or k.in_isolation or k.name in experienced
        if not has_time and ids["job_classes"][k.name] not in with_history:
            raise SiteConflict(
                ("job_classes", n, "name"),
                f"job class '{k.name}' has no time anywhere, neither from the site's staff nor in the "
                f"history; give it at least one in sequential_s or parallel_s",
            )
    return site


def put_file(session: Session, file: SiteFile, path: Path) -> None:
    """As `put_site`, for a site that was read from `path`. Raises InvalidFile with the line of a conflict."""
    try:
        put_site(session, file)
    except SiteConflict as conflict:
        raise toml_file.invalid(path, [(conflict.place, str(conflict))]) from None


def _reset_moved_machines(
    session: Session, site: schema.SiteRow, machines: Sequence[PlainTable], before: Ids
) -> None:
    """Reset the history of machines that change their class: they are new hardware, for which their earlier
    runs do not count."""
    row = schema.MachineRow
    query = select(row.name, row.machine_class_id).where(row.site_id == site.id)
    class_of: dict[str, int] = dict(session.execute(query).all())
    new = {one["name"]: before["machine_classes"].get(one["machine_class"]) for one in machines}
    moved = [before["machines"][name] for name, id in class_of.items() if new.get(name, id) != id]
    if moved:
        session.execute(update(row), [{"id": id, "runs_before": site.runs_recorded} for id in moved])
        _delete(session, schema.ExecutionStatisticsRow, "machine_id", moved)


def _put_rows(
    session: Session,
    site_id: int,
    kind: EntityKind,
    tables: Sequence[PlainTable],
    ids: Ids,
    there: Mapping[str, int],
) -> dict[str, int]:
    """Insert or update the rows of one kind. Returns the ids of `tables` by name."""
    new, old = [], []
    for position, table in enumerate(tables):
        values = {"position": position, **{column: table[column] for column in kind.columns}}
        values |= {column: ids[other][table[key]] for column, (key, other) in kind.references.items()}
        values |= {column: table[key] is None for column, key in kind.unlimited}
        values |= kind.constants
        if table["name"] in there:
            old.append({"id": there[table["name"]], **values})
        else:
            new.append({"site_id": site_id, "name": table["name"], **values})
    if old:
        session.execute(update(kind.row), old)
    if new:
        session.execute(insert(kind.row), new)
    known = ids_of(session, kind.row, site_id)
    return {table["name"]: known[table["name"]] for table in tables}


def _replace_rows(
    session: Session, site_id: int, name: str, relation: Relation, tables: Sequence[PlainTable], ids: Ids
) -> None:
    """Replace the rows of a relation of the kind `name` by those of its `tables`."""
    row, parent = relation.row, KINDS[name].row
    of_site = getattr(row, relation.parent_id).in_(select(parent.id).where(parent.site_id == site_id))
    session.execute(delete(row).where(of_site).execution_options(synchronize_session=False))
    columns = [(column, ids[kind] if kind else None) for column, kind in relation.columns.items()]
    rows = [
        {
            relation.parent_id: ids[name][table["name"]],
            **{
                column: other[value] if other and value is not None else value
                for (column, other), value in zip(columns, values, strict=True)
            },
        }
        for table in tables
        for values in relation.to_rows(table)
    ]
    if rows:
        session.execute(insert(row), rows)


def _delete(
    session: Session, row: type[schema.Base] | type[schema.OfSite], column: str, ids: Sequence[int]
) -> None:
    table: Any = row.__table__  # type: ignore[union-attr]
    if ids:
        statement = delete(table).where(table.c[column] == bindparam("removed"))
        session.connection().execute(statement, [{"removed": id} for id in ids])


def _check_history(session: Session, site: schema.SiteRow, file: SiteFile, before: Ids) -> None:
    """Raise SiteConflict for what has history, and is not in the file any more."""

    def count(row: Any, column: InstrumentedAttribute[Any], id: int) -> int:
        return session.scalar(select(func.count()).where(row.site_id == site.id, column == id)) or 0

    run, job = schema.ExecutionHistoryRow, schema.JobRow
    of_class, of_cluster, of_machines = run.job_class_id, run.cluster_id, run.machine_class_id
    columns = {"job_classes": of_class, "clusters": of_cluster, "machine_classes": of_machines}
    for kind, column in columns.items():
        names = {table.name for table in getattr(file, kind)}
        for name, id in before[kind].items():
            if name in names:
                continue
            runs = count(run, column, id)
            jobs = 0 if runs or kind != "job_classes" else count(job, job.job_class_id, id)
            if runs or jobs:
                raise SiteConflict(
                    (),
                    f"the {KINDS[kind].singular} '{name}' is not in the file any more, but the history of "
                    f"the site '{file.name}' has {counted(runs or jobs, 'run' if runs else 'job')} of it; "
                    f"keep it in the file, or delete them first with `sil db prune`",
                )


def read_site_file(path: Path) -> SiteFile:
    """The site in a TOML file, in site order. Raises InvalidFile with all its mistakes."""
    site = toml_file.read(path, SiteFile)
    if errors := [*validation.errors_of_file(site)]:
        raise toml_file.invalid(path, errors)
    return in_site_order(site)


def site_text(site: SiteFile) -> str:
    """The site as the text of a site file: reading it again gives an equal site."""
    data = site.model_dump(mode="json", exclude_defaults=True)
    for kind, key in (("machines", "names"), ("clusters", "members"), ("partitions", "nodes")):
        for table, of in zip(data.get(kind, ()), getattr(site, kind), strict=True):
            table[key] = machine_names.fold(getattr(of, key))
    return printable(tomlkit.dumps(data))  # escapes in strings, which tomlkit leaves out of many
