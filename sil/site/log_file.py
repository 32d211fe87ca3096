"""How a log is read, and on which nodes its jobs run: the settings. Readers are loaded when they are used."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from scheduler import UserError
from sil.declared import Setting
from sil.workload.settings import Rules

if TYPE_CHECKING:
    from sil.workload.job_log import JobLog
    from site_db.site_file.cluster import Cluster


@dataclass(frozen=True)
class LogFile(Rules):
    """A log, perhaps on nodes with CPUs, memory and GPUs."""

    processors: Annotated[int | None, Setting("Override the machine size in the log.", least=1)] = None
    nodes: Annotated[
        str | Path | None,
        Setting(
            "Nodes with CPUs, memory and GPUs, and partitions: slurm.conf, the output of `scontrol show "
            "node`, a site file (TOML), or Alibaba's nodes (CSV).",
            metavar="FILE",
        ),
    ] = None
    site: Annotated[
        str | None,
        Setting("The same, of a site in a database, like site.db#SITE.", metavar="DATABASE#SITE"),
    ] = None

    def cluster(self) -> Cluster | None:
        """The nodes; None without any. Raises UserError."""
        if self.nodes is not None and self.site is not None:
            raise UserError("a file of nodes and a site are given, and both name the nodes; give one of them")
        if self.site is not None:
            from sil.site.log_nodes import nodes_in_database
            from site_db.store import parse_address

            return nodes_in_database(parse_address(self.site))
        if self.nodes is None:
            return None  # before the database is loaded
        from sil.site.log_nodes import read_nodes_of

        return read_nodes_of(Path(self.nodes))

    def read(self, log: Path, cluster: Cluster | None) -> JobLog:
        """The jobs of a log, on these nodes. Raises InvalidFile."""
        from sil.site.logs import read_log

        files = [] if self.nodes is None else [Path(self.nodes)]
        return read_log(log, self, self.processors, cluster, files)
