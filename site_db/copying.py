"""Copying a site: with its statistics into another database, or into a file that stands alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import insert, update
from sqlalchemy.orm import Session

from site_db import schema
from site_db.experience import MemoryExperience, StatisticsReader, expected_times
from site_db.history.stored_statistics import Key, read_stored_as_of, write_snapshots, write_stored
from site_db.site_file.importing import put_site
from site_db.site_file.tables import JobClassTable, SiteFile
from site_db.sites import SiteReader
from site_db.states import CurrentStates, current_states


def copy_site(origin: Session, site: str, copy: Session, as_of: int | None = None) -> int:
    """Copy a site, its current states and its statistics as of a run (default: the last one).

    The runs are not copied: in the copy they count as pruned, and the next run has the next number. Returns
    the number of the last run. Raises UserError.
    """
    there = SiteReader(origin, site)
    number = there.site.runs_recorded if as_of is None else as_of
    statistics = read_stored_as_of(origin, there.site.id, number)
    with_history = {key.job_class_id for key in statistics}
    experienced = {name for name, id in there.ids("job_classes").items() if id in with_history}
    site_id = put_site(copy, there.as_file(), experienced).id
    here = SiteReader(copy, site)
    translate = _translation(there, here)
    copied = {translate(key): replace(stored, id=None) for key, stored in statistics.items()}
    write_stored(copy, copied, number)
    write_snapshots(copy, copied.values(), number)
    copy.execute(
        update(schema.SiteRow)
        .where(schema.SiteRow.id == site_id)
        .values(runs_recorded=number, runs_pruned=number, snapshot_at=number)
    )
    _copy_states(current_states(origin, there), here, copy)
    return number


def _copy_states(states: CurrentStates, here: SiteReader, copy: Session) -> None:
    kinds: dict[str, tuple[type[schema.Base], Mapping[str, Any]]] = {
        "machine": (schema.MachineStateRow, states.machines),
        "interconnect": (schema.InterconnectStateRow, states.interconnects),
        "cluster": (schema.ClusterStateRow, states.clusters),
    }
    for kind, (row, latest) in kinds.items():
        columns = [c.key for c in row.__table__.columns if c.key not in ("id", f"{kind}_id")]
        ids = here.ids(f"{kind}s")
        rows = [
            {f"{kind}_id": ids[name], **{column: getattr(state, column) for column in columns}}
            for name, state in latest.items()
        ]
        if rows:
            copy.execute(insert(row), rows)


def _translation(there: SiteReader, here: SiteReader) -> Callable[[Key], Key]:
    """Keys of statistics with the ids of one database to those of the other, by the names of things."""
    job_classes, machine_classes, machines, clusters = (
        {id: here.ids(kind)[name] for name, id in there.ids(kind).items()}
        for kind in ("job_classes", "machine_classes", "machines", "clusters")
    )
    return lambda key: Key(
        job_classes[key.job_class_id],
        key.machine_class_id and machine_classes[key.machine_class_id],
        key.machine_id and machines[key.machine_id],
        key.cluster_id and clusters[key.cluster_id],
        key.members,
    )


def exported(session: Session, site: str) -> SiteFile:
    """The site; a job class to which its staff gave no time has the times that are expected now, on the
    machine classes where its jobs may run. Raises UserError."""
    file, reader = SiteReader(session, site).as_file(), StatisticsReader(session, site)
    expect = expected_times(reader.layout, MemoryExperience(reader.layout, reader.statistics(session)))

    def with_times(table: JobClassTable) -> JobClassTable:
        if table.sequential_s or table.parallel_s or table.in_isolation:
            return table
        times = {place: expect(table.name, place) for place in table.commands}
        known = {place: seconds for place, seconds in times.items() if seconds is not None}
        return table.model_copy(update={"sequential_s": known})

    return file.model_copy(update={"job_classes": tuple(map(with_times, file.job_classes))})
