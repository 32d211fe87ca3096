"""The nodes on which the jobs of a log run: of a file, or of a site in a database."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sil.site.logs import is_csv
from sil.workload.tables import read_nodes
from site_db import sites, store
from site_db.files.input_errors import InvalidFile
from site_db.site_file.cluster import Cluster
from site_db.site_file.importing import read_site_file
from site_db.site_file.nodes import cluster_of
from site_db.sites import SiteReader
from site_db.slurm_conf import read_cluster
from site_db.states import current_states
from site_db.store import Address


def read_nodes_of(path: Path) -> Cluster:
    """The nodes in a site file (TOML), in Alibaba's CSV, in slurm.conf or in the output of `scontrol show
    node`, without those that are down there. Raises InvalidFile."""
    if path.suffix.lower() == ".toml":
        return cluster_of(read_site_file(path))
    return Cluster(read_nodes(path), {}, {}) if is_csv(path) else _up(read_cluster(path), path)


def nodes_in_database(address: Address) -> Cluster:
    """The nodes of a site in a database, without those that are down. Raises UserError, DatabaseTrouble and
    InvalidFile."""
    with store.opened(address) as session:
        reader = SiteReader(session, sites.site_at(session, address))
        cluster = cluster_of(reader.as_file())
        down = cluster.nodes.keys() & set(current_states(session, reader).down)
        return _up(replace(cluster, down=frozenset(down)), address)


def _up(cluster: Cluster, where: object) -> Cluster:
    """Raises InvalidFile if all nodes are down."""
    if not cluster.up.nodes:
        raise InvalidFile(f"{where}: all nodes are down; expected one that takes jobs")
    return cluster.up
