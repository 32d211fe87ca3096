"""How a log is read, and on which nodes its jobs run: the settings. Readers are loaded when they are used."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from scheduler import UserError
from sil.declared import Setting
from sil.workload.settings import Part, Period, Rules
from site_db.files.input_errors import InvalidFile

if TYPE_CHECKING:
    from sil.workload.job_log import JobLog
    from site_db.site_file.cluster import Cluster


@dataclass(frozen=True)
class LogFile(Rules):
    """A log, perhaps on nodes with CPUs, memory and GPUs.

    * `processors`: Override the machine size in the log.
    * `nodes`: Nodes with CPUs, memory and GPUs, and partitions: slurm.conf, the output of `scontrol show
      node`, a site file (TOML), or Alibaba's nodes (CSV).
    * `site`: The same, of a site in a database, like site.db#SITE.
    """

    processors: Annotated[int | None, Setting(least=1)] = None
    nodes: Annotated[str | Path | None, Setting(metavar="FILE")] = None
    site: Annotated[str | None, Setting(metavar="DATABASE#SITE")] = None

    def cluster(self) -> Cluster | None:
        """The nodes; None without any. Raises UserError."""
        if self.nodes is not None and self.site is not None:
            raise UserError("a file of nodes and a site are given, and both name the nodes; give one of them")
        if self.site is not None:
            return nodes_in_database(self.site)
        return None if self.nodes is None else read_nodes_of(Path(self.nodes))

    def read(self, log: Path, cluster: Cluster | None) -> JobLog:
        """The jobs of a log, on these nodes. Raises InvalidFile."""
        from sil.site.logs import read_log

        files = [] if self.nodes is None else [Path(self.nodes)]
        return read_log(log, self, self.processors, cluster, files)


@dataclass(frozen=True, kw_only=True)
class OfPeriod(LogFile, Period):
    """The jobs of a log within a period.

    * `bound_s`: Run times that are shorter count as this many seconds in bounded slowdowns.
    """

    bound_s: Annotated[float, Setting(option="--bounded-slowdown-threshold", least=0.001, most=1e9)] = 10.0

    def chosen(self, log: Path, cluster: Cluster | None) -> JobLog:
        """Those that are replayed. Raises InvalidFile."""
        return replace(self.of(self.read(log, cluster)), bound_s=self.bound_s)


@dataclass(frozen=True, kw_only=True)
class OfPart(OfPeriod, Part):
    """Those with some indices, under another load."""


def read_nodes_of(path: Path) -> Cluster:
    """The nodes in a site file (TOML), in Alibaba's CSV, in slurm.conf or in the output of `scontrol show
    node`, without those that are down there. Raises InvalidFile."""
    from sil.site.logs import is_csv
    from sil.workload.tables import read_nodes
    from site_db.site_file.cluster import Cluster
    from site_db.site_file.importing import read_site_file
    from site_db.site_file.nodes import cluster_of
    from site_db.slurm_conf import read_cluster

    if path.suffix.lower() == ".toml":
        return cluster_of(read_site_file(path))
    return Cluster(read_nodes(path), {}, {}) if is_csv(path) else _up(read_cluster(path), path)


def nodes_in_database(address: str) -> Cluster:
    """The nodes of a site in a database, without those that are down. Raises UserError, DatabaseTrouble and
    InvalidFile."""
    from site_db import sites, store
    from site_db.site_file.nodes import cluster_of
    from site_db.states import current_states

    where = store.parse_address(address)
    with store.opened(where) as session:
        reader = sites.SiteReader(session, sites.site_at(session, where))
        down = set(current_states(session, reader).down)
        cluster = cluster_of(reader.as_file())
        return _up(replace(cluster, down=frozenset(cluster.nodes.keys() & down)), where)


def _up(cluster: Cluster, where: object) -> Cluster:
    """Raises InvalidFile if all nodes are down."""
    if not cluster.up.nodes:
        raise InvalidFile(f"{where}: all nodes are down; expected one that takes jobs")
    return cluster.up
