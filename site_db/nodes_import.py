"""Importing the nodes and partitions of a Slurm cluster into a site."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sqlalchemy.orm import Session

from scheduler.messages import abbreviated, counted
from site_db.files.input_errors import InvalidFile
from site_db.site_file.cluster import Cluster
from site_db.site_file.importing import SiteConflict, put_site
from site_db.site_file.nodes import cluster_of, first_of, never_satisfied, with_cluster
from site_db.site_file.relations import in_site_order
from site_db.site_file.tables import SiteFile
from site_db.site_file.validation import errors
from site_db.sites import SiteReader, site_names, site_or_new
from site_db.slurm_conf import read_cluster
from site_db.states import Observation, StateWriter, current_states


class ImportedNodes(NamedTuple):
    """The nodes that a site has now, and sentences on what else changed, or is not known."""

    cluster: Cluster
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
    _record_down(session, site, cluster, now_unix_s)
    return ImportedNodes(cluster_of(file), is_new, [*_notes(before, file, cluster)])


def _record_down(session: Session, site: str, cluster: Cluster, now_unix_s: float) -> None:
    """Nodes that are down in the file, and not yet at the site."""
    reader = SiteReader(session, site)
    new = cluster.down.difference(current_states(session, reader).down)
    if new:
        writer = StateWriter(session, reader)
        for name in sorted(new):
            writer.add(name, Observation(up=False), now_unix_s)


def _notes(before: SiteFile, file: SiteFile, cluster: Cluster) -> Iterator[str]:
    unlimited = [table.name for table in file.partitions if table.name not in cluster.partitions]
    if unlimited:
        yield (
            f"the limits of {'partition' if len(unlimited) == 1 else 'the partitions'} "
            f"{', '.join(unlimited)} are not known, since only nodes name "
            f"{'it' if len(unlimited) == 1 else 'them'}; for MaxTime, DefaultTime and MaxNodes, import "
            f"slurm.conf"
        )
    yield from cluster.notes
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
