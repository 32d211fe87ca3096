"""Sites copied into other databases, exported to files, and changed to the nodes of a Slurm cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import insert, update
from sqlalchemy.orm import Session

from scheduler.messages import abbreviated, counted
from site_db import schema
from site_db.experience import MemoryExperience, StatisticsReader, expected_times
from site_db.files.input_errors import InvalidFile
from site_db.history.stored_statistics import Key, read_stored_as_of, write_snapshots, write_stored
from site_db.site_file.cluster import SiteNodes
from site_db.site_file.importing import SiteConflict, put_site
from site_db.site_file.nodes import cluster_of, first_of, never_satisfied, with_cluster
from site_db.site_file.relations import in_site_order
from site_db.site_file.tables import JobClassTable, SiteFile
from site_db.site_file.validation import errors
from site_db.sites import SiteReader, site_names, site_or_new
from site_db.slurm_conf import read_cluster
from site_db.states import STATES, CurrentStates, Observation, StateWriter, current_states


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
    for kind, row in STATES.items():
        ids, latest = here.ids(kind), getattr(states, kind)
        owner_id = f"{kind.removesuffix('s')}_id"
        columns = [c.key for c in row.__table__.columns if c.key not in ("id", owner_id)]
        rows = [
            {owner_id: ids[name], **{column: getattr(state, column) for column in columns}}
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


class ImportedNodes(NamedTuple):
    """The nodes that a site has now, and sentences on what else changed, or is not known."""

    cluster: SiteNodes
    is_new: bool
    """Whether there was no such site."""
    notes: list[str]


def import_nodes(session: Session, site: str, conf: Path, now_unix_s: float) -> ImportedNodes:
    """Put the nodes and partitions of a `slurm.conf`, or of the output of `scontrol show node`, in place of
    those of a site, which is created if there is none of that name.

    Nodes that are down there are recorded as down from now on; no others are reported to be up. Job classes,
    history, queues and users stay. Importing the same file again changes nothing. Raises InvalidFile
    with file and line, and InvalidFile where the site contradicts the file.
    """
    cluster = read_cluster(conf)
    if not any(node.partitions for node in cluster.nodes.values()):
        raise InvalidFile(
            f"{conf}: there is no partition, which jobs are submitted to; expected a line like "
            f"'PartitionName=batch Nodes=ALL', or Partitions=batch in the output of scontrol show node"
        )
    is_new, before = site not in site_names(session), site_or_new(session, site)
    file = in_site_order(with_cluster(before, cluster))
    if mistakes := [sentence for _, sentence in errors(file)]:
        raise InvalidFile(*(f"{conf}: {sentence}" for sentence in mistakes))
    try:
        put_site(session, file, experienced=[table.name for table in file.job_classes])
    except SiteConflict as conflict:
        raise InvalidFile(f"{conf}: {conflict}") from None
    reader = SiteReader(session, site)
    if new := cluster.down.difference(current_states(session, reader).down):
        writer = StateWriter(session, reader)
        for name in sorted(new):
            writer.add(name, Observation(up=False), now_unix_s)
    return ImportedNodes(cluster_of(file), is_new, [*_notes(before, file, cluster)])


def _notes(before: SiteFile, file: SiteFile, cluster: SiteNodes) -> Iterator[str]:
    unlimited = [table.name for table in file.partitions if table.name not in cluster.partitions]
    if unlimited:
        of, them = ("partition", "it") if len(unlimited) == 1 else ("the partitions", "them")
        yield (
            f"the limits of {of} {', '.join(unlimited)} are not known, since only nodes name {them}; for "
            f"MaxTime, DefaultTime and MaxNodes, import slurm.conf"
        )
    yield from cluster.notes
    if before.topology is not None and cluster.topology is None:
        yield "the switches or blocks of the site are removed, since the file has none"
    if cluster.down:
        n, names = len(cluster.down), abbreviated(sorted(cluster.down))
        are, them = ("is", "it") if n == 1 else ("are", "them")
        yield (
            f"{counted(n, 'node')} {are} down: {names}; experiments start without {them}, until: sil db "
            f"state NODE up"
        )
    left = {table.name for table in file.clusters}
    for table in before.clusters:
        if table.name not in left:
            yield f"the cluster '{table.name}' is removed, since none of its members is a node any more"
    yield from first_of([sentence for _, sentence in never_satisfied(file)])
