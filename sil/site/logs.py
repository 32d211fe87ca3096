"""Logs of jobs: the settings by which one is read, with nodes or without; which reader it needs, by its
content, and which writer, by its name. Each reader takes time to load, so it is loaded when it is used."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from scheduler import UserError
from sil.declared import Setting
from sil.settings.alternatives import texts
from sil.settings.files import paths
from sil.settings.replays import OfAccounting
from sil.workload.settings import LogPart, Period, Rules, factors_in
from site_db.files.input_errors import InvalidFile, remedy

if TYPE_CHECKING:
    from sil.workload.job_log import JobLog
    from site_db.site_file.cluster import SiteNodes


@dataclass(frozen=True)
class _OfSize(Rules):
    """* `processors`: Override the machine size in the log."""

    processors: Annotated[int | None, Setting(least=1)] = None


@dataclass(frozen=True)
class WithNodes(Rules):
    """The nodes of a log, with CPUs, memory and GPUs, and the policy.

    * `nodes`: Nodes with CPUs, memory and GPUs, and partitions: slurm.conf, the output of `scontrol show
      node`, a site file (TOML), or Alibaba's nodes (CSV).
    * `site`: The same, of a site in a database, like site.db#SITE.
    * `policy`: Priorities, fair share and limits of Slurm: slurm.conf, and what `sacctmgr dump`, `sacctmgr
      --parsable2 show qos` and `sshare -a --parsable2` print. May be repeated.
    * `settings`: A setting of the policy's slurm.conf that is another than there, like
      PriorityWeightFairshare=0 or SchedulerParameters=bf_interval=60. May be repeated.
    """

    nodes: Annotated[str | Path | None, Setting(metavar="FILE")] = None
    site: Annotated[str | None, Setting(metavar="DATABASE#SITE")] = None
    policy: Annotated[list[Path] | None, Setting(metavar="FILE")] = None
    settings: Annotated[list[str] | None, Setting(option="--set", metavar="KEY=VALUE")] = None

    @cached_property
    def cluster(self) -> SiteNodes | None:
        """The nodes, with the policy; None without any. With a policy alone, there are no nodes: each log has
        one with all its processors. Raises UserError."""
        if self.nodes is not None and self.site is not None:
            raise UserError("a file of nodes and a site are given, and both name the nodes; give one of them")
        if not (files := paths(self.policy)) and not self.settings:
            return self._nodes()
        from site_db.site_file.cluster import SiteNodes
        from site_db.slurm.priorities import MODELLED

        # Of another slurm.conf than that of the policy, priorities and partitions' tiers do not count.
        is_read = self.nodes is not None and Path(self.nodes).resolve() in [file.resolve() for file in files]
        nodes = self._nodes(MODELLED if is_read else ()) or SiteNodes({}, {}, {}, has_memory=False)
        return under_policy(nodes, files, is_read, self.settings or ())

    def _nodes(self, modelled: Collection[str] = ()) -> SiteNodes | None:
        if self.site is not None:
            return nodes_in_database(self.site)
        return None if self.nodes is None else read_nodes_of(Path(self.nodes), modelled)


def under_policy(
    nodes: SiteNodes, files: Sequence[Path], has_nodes: bool = False, settings: str | Iterable[str] = ()
) -> SiteNodes:
    """The nodes under the policy of files, if there are any. Raises InvalidFile. `has_nodes` and `settings`:
    see `read_policy`."""
    from site_db.slurm.policy import read_policy

    other = " ".join(texts(settings))
    policy = read_policy(files, nodes, has_nodes, other) if files or other else None
    return nodes if policy is None else replace(nodes, policy=policy, notes=(*nodes.notes, *policy.notes))


@dataclass(frozen=True)
class LogFile(WithNodes, _OfSize):
    """A log, perhaps on nodes and under a policy."""

    def read(self, log: Path) -> JobLog:
        """The jobs of a log, on these nodes. Raises InvalidFile."""
        files = [] if self.nodes is None else [Path(self.nodes)]
        return read_log(log, self, self.processors, self.cluster, [*files, *paths(self.policy)])


@dataclass(frozen=True, kw_only=True)
class OfPeriod(LogFile, Period):
    """The jobs of a log within a period.

    * `bound_s`: Run times that are shorter count as this many seconds in bounded slowdowns.
    * `deadlines`: Give each job a deadline: its submission, plus its estimate times a factor from LOW to
      HIGH, drawn with seed 1; LOW:HIGH:SEED for another.
    """

    bound_s: Annotated[float, Setting(option="--bounded-slowdown-threshold", least=0.001, most=1e9)] = 10.0
    deadlines: Annotated[str | None, Setting(metavar="LOW:HIGH", in_python=False)] = None

    def chosen(self, log: Path) -> JobLog:
        """The jobs that are replayed. Raises InvalidFile."""
        found = self.read(log)
        if self.deadlines is not None:
            found = found.with_deadlines(*factors_in(self.deadlines))
        return replace(self.of(found), bound_s=self.bound_s)


@dataclass(frozen=True, kw_only=True)
class OfPart(OfPeriod, LogPart):
    """The jobs with some indices, under another load."""


@dataclass(frozen=True, kw_only=True)
class Validating(OfAccounting, WithNodes):
    """On which nodes, under which policy and how recorded jobs are replayed.

    * `reasons`: Record why jobs wait, for those that differ most. Takes longer.
    * `calibrate`: Weights that nobody knows, like PriorityWeightAge,PriorityWeightQOS: they are searched on
      the first half of the time in which jobs count, and only the rest is judged.
    """

    reasons: bool = False
    calibrate: Annotated[str | None, Setting(metavar="WEIGHT,...")] = None


def read_log(
    path: Path,
    rules: Rules,
    processors: int | None,
    cluster: SiteNodes | None = None,
    nodes: Sequence[Path] = (),
    keep: bool = False,
) -> JobLog:
    """A log of the Standard Workload Format, or a workload of Batsim's (JSON).

    With the nodes of a cluster, also Slurm's accounting and Alibaba's pods (CSV); then the jobs of a log are
    tasks of one core. `nodes` are the files from which the cluster was read. With `keep`, the log keeps what
    is needed to write it again. Raises InvalidFile.
    """
    log = _read(path, rules, processors, cluster, keep)
    loop = ["no job names a preceding one: there is no closed loop"] * (rules.closed_loop and not log.after)
    return _of(replace(log, notes=(*log.notes, *loop, *log.not_associated)), rules, path, *nodes)


def read_on_processors(path: Path, rules: Rules, processors: int | None, keep: bool = False) -> JobLog:
    """As `read_log`; jobs of accounting count with their processors, whatever else they request. Raises
    InvalidFile."""
    if not _is_accounting(path):
        return read_log(path, rules, processors, keep=keep)
    from sil.workload import accounting

    return _of(accounting.read_on_processors(path, rules, processors), rules, path)


def _of(log: JobLog, rules: Rules, *files: Path) -> JobLog:
    """With the files from which it was read."""
    from sil.report.origin import sha256_sums
    from site_db.files.formats import zone_named

    return replace(log, sources=sha256_sums(*files), zone=zone_named(rules.time_zone)).with_resets()


def _read(path: Path, rules: Rules, processors: int | None, cluster: SiteNodes | None, keep: bool) -> JobLog:
    is_accounting, first_line = _is_accounting(path), _first_line(path)
    is_table = _NAMES.fullmatch(first_line) is not None
    if (cluster is None or not cluster.nodes) and (is_accounting or is_table):
        kind = "Slurm's accounting" if is_accounting else "a table (CSV)"
        nodes = remedy("; name the nodes with {}", ("--nodes", "slurm.conf"), ("--site", "DATABASE#SITE"))
        raise InvalidFile(f"{path}: this is {kind}, whose jobs request parts of nodes{nodes}")
    if is_accounting and cluster is not None:
        from sil.workload.accounting import read_accounting

        return read_accounting(path, cluster, rules)
    if is_table and cluster is not None:
        from sil.workload.tables import read_pod_log

        return read_pod_log(path, cluster)
    if not first_line.startswith(("{", "[")):
        from sil.workload.swf import read_swf

        return read_swf(path, rules, processors, cluster, keep)
    if cluster is not None:
        without = remedy("; leave out {}", ("--nodes", ""), ("--site", ""), ("--policy", ""))
        raise InvalidFile(f"{path}: Batsim's workloads are for identical nodes{without}")
    from sil.workload.batsim_json import read_batsim_json

    return read_batsim_json(path, processors, keep)


def write_log(path: Path, log: JobLog) -> tuple[str, ...]:
    """Write a log. Returns sentences on what the format cannot hold. Raises InvalidFile where the file cannot
    be written."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] not in (".swf", ".json") and suffixes[-2:] not in _COMPRESSED:
        raise InvalidFile(
            f"{path}: the name says how a log is written; expected one that ends in .swf, .swf.gz, .json or "
            f".json.gz"
        )
    if ".json" in suffixes:
        from sil.workload.batsim_json import write_batsim_json

        return write_batsim_json(path, log)
    from sil.workload.swf_writing import write_swf

    return write_swf(path, log)


_COMPRESSED = ([".swf", ".gz"], [".json", ".gz"])
"""The last suffixes of logs that are compressed when they are written."""
_NAMES = re.compile(r'"?\w+"?(,"?\w+"?)+', re.ASCII)


def _is_accounting(path: Path) -> bool:
    if _first_line(path).startswith(";"):  # the header of an SWF
        return False
    from site_db.jobs.sacct.reader import is_sacct

    return is_sacct(path)


def _first_line(path: Path) -> str:
    from site_db.files.access import open_lines

    with open_lines(path) as lines:
        return next((line.strip() for line in lines if line.strip()), "")


def is_csv(path: Path) -> bool:
    """Whether the first line has names of columns."""
    return _NAMES.fullmatch(_first_line(path)) is not None


def read_nodes_of(path: Path, modelled: Collection[str] = ()) -> SiteNodes:
    """The nodes in a site file (TOML), in Alibaba's CSV, in slurm.conf, of which keys may be `modelled` by a
    policy, or in the output of `scontrol show node`, without those that are down there. Raises
    InvalidFile."""
    from sil.workload.tables import read_nodes
    from site_db.site_file.cluster import SiteNodes
    from site_db.site_file.importing import read_site_file
    from site_db.site_file.nodes import cluster_of
    from site_db.slurm_conf import read_cluster

    if path.suffix.lower() == ".toml":
        return cluster_of(read_site_file(path))
    return SiteNodes(read_nodes(path), {}, {}) if is_csv(path) else _up(read_cluster(path, modelled), path)


def nodes_in_database(address: str) -> SiteNodes:
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


def _up(cluster: SiteNodes, where: object) -> SiteNodes:
    """The nodes that are up. Raises InvalidFile if all are down."""
    if not cluster.up.nodes:
        raise InvalidFile(f"{where}: all nodes are down; expected one that takes jobs")
    return cluster.up
