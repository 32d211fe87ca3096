"""Importing Slurm's accounting: at a site of nodes, or at one of machines."""

from __future__ import annotations

from datetime import UTC, tzinfo
from functools import partial
from pathlib import Path

from sqlalchemy.orm import Session

from site_db.jobs.log_import import DESCRIPTION, import_log, source_of
from site_db.jobs.logs.logged_job import Tally, up_to_now
from site_db.jobs.logs.occupancy import Occupancy
from site_db.jobs.on_machines import JobsOnMachines
from site_db.jobs.on_nodes import JobsOnNodes
from site_db.jobs.records import SourceKind
from site_db.jobs.sacct.reader import read_file
from site_db.jobs.writer import SiteNames
from site_db.site_file.cluster import Cluster
from site_db.site_file.importing import put_site
from site_db.site_file.nodes import cluster_of
from site_db.site_file.replacing_nodes import with_cluster
from site_db.sites import site_names, site_or_new

ALONE = (
    "the site '{site}' has machines but no partitions: each job is taken to have its machines for itself; "
    "for nodes that jobs share, import slurm.conf first (sil db import-slurm-conf)"
)
INFERRED = (
    "the sizes and partitions of {n} inferred from the jobs that ran there: a node has what was "
    "in use at a time; for the true ones, import slurm.conf (sil db import-slurm-conf)"
)

NO_NODES = (
    "no job names its nodes (NodeList), and the site has none: runs count for the machine class of their "
    "partition; to simulate the jobs, import slurm.conf before the log (sil db import-slurm-conf)"
)


def import_accounting(
    session: Session, site: str, log: Path, tally: Tally, now_unix_s: float, zone: tzinfo = UTC
) -> tuple[int, list[str]]:
    """Record the jobs of accounting that used their nodes, with local times of `zone`; `tally` counts what
    happened to its rows.

    At a site with partitions, jobs request parts of its nodes. A new site gets nodes that are inferred from
    the jobs. Returns how many jobs were recorded before, and sentences on what is assumed. Raises as
    `import_log`, and InvalidFile.
    """
    notes: list[str] = []
    is_new, file = site not in site_names(session), site_or_new(session, site)
    if is_new:
        file = file.model_copy(update={"description": DESCRIPTION})
    cluster = cluster_of(file) if file.partitions else None
    on_nodes: list[JobsOnNodes] = []

    def build_on_nodes(cluster: Cluster, session: Session, site_id: int, names: SiteNames) -> JobsOnNodes:
        on_nodes.append(JobsOnNodes(session, site_id, names, cluster))
        return on_nodes[0]

    if file.machines and cluster is None:
        notes.append(ALONE.format(site=site))
    elif cluster is None:
        cluster = _inferred(log, zone)
        if not cluster.nodes:
            notes.append(NO_NODES)
        else:
            n = len(cluster.nodes)
            notes.append(INFERRED.format(n="1 node are" if n == 1 else f"{n:,} nodes are"))
            experienced = [table.name for table in file.job_classes]
            put_site(session, with_cluster(file, cluster), experienced)
    make = JobsOnMachines if cluster is None or not cluster.nodes else partial(build_on_nodes, cluster)
    jobs = up_to_now(read_file(log, tally, zone=zone), log, now_unix_s)
    skipped = import_log(session, site, source_of(SourceKind.SACCT, log), jobs, make)
    of_site = [sentence for builder in on_nodes for sentence in builder.assumptions()]
    return skipped, [*notes, *tally.remarks(), *of_site]


def _inferred(log: Path, zone: tzinfo) -> Cluster:
    """The nodes of a log, as far as its jobs used them."""
    occupancy = Occupancy()
    for job in read_file(log, Tally(), zone=zone):
        occupancy.add(job)
    return occupancy.cluster()
