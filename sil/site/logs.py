"""Which reader a log needs, by its content, and which writer, by its name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sil.report.origin import sha256_sums
from sil.workload.job_log import JobLog
from sil.workload.settings import Rules
from sil.workload.swf import read_swf
from sil.workload.swf_writing import write_swf
from site_db.files.input_errors import InvalidFile, remedy
from site_db.files.readers import open_lines
from site_db.jobs.sacct.reader import is_sacct
from site_db.jobs.sacct.times import zone_named
from site_db.site_file.cluster import Cluster


def read_log(
    path: Path,
    rules: Rules,
    processors: int | None,
    cluster: Cluster | None = None,
    nodes: Sequence[Path] = (),
    keep: bool = False,
) -> JobLog:
    """A log of the Standard Workload Format, or a workload of Batsim's (JSON).

    With the nodes of a cluster, also Slurm's accounting and Alibaba's pods (CSV); then the jobs of a log are
    tasks of one core. `nodes` are the files from which the cluster was read. With `keep`, the log keeps what
    is needed to write it again. Raises InvalidFile.
    """
    log = _read(path, rules, processors, cluster, keep)
    return replace(log, sources=sha256_sums(path, *nodes), zone=zone_named(rules.time_zone))


def read_on_processors(path: Path, rules: Rules, processors: int | None, keep: bool = False) -> JobLog:
    """As `read_log`; jobs of accounting count with their processors, whatever else they request. Raises
    InvalidFile."""
    if not is_sacct(path):
        return read_log(path, rules, processors, keep=keep)
    from sil.workload import accounting

    log = accounting.read_on_processors(path, rules, processors)
    return replace(log, sources=sha256_sums(path), zone=zone_named(rules.time_zone))


def _read(path: Path, rules: Rules, processors: int | None, cluster: Cluster | None, keep: bool) -> JobLog:
    is_accounting, first_line = is_sacct(path), _first_line(path)
    is_table = _NAMES.fullmatch(first_line) is not None
    if cluster is None and (is_accounting or is_table):
        kind = "Slurm's accounting" if is_accounting else "a table (CSV)"
        nodes = remedy("; name the nodes with {}", ("--nodes", "slurm.conf"), ("--site", "DATABASE#SITE"))
        raise InvalidFile(f"{path}: this is {kind}, whose jobs request parts of nodes{nodes}")
    # Each reader takes time to load.
    if is_accounting and cluster is not None:
        from sil.workload.accounting import read_accounting

        return read_accounting(path, cluster, rules)
    if is_table and cluster is not None:
        from sil.workload.tables import read_pod_log

        return read_pod_log(path, cluster)
    if not first_line.startswith(("{", "[")):
        return read_swf(path, rules, processors, cluster, keep)
    if cluster is not None:
        without = remedy("; leave out {}", ("--nodes", ""), ("--site", ""))
        raise InvalidFile(f"{path}: Batsim's workloads are for identical nodes{without}")
    from sil.workload.batsim_json import read_batsim_json

    return read_batsim_json(path, processors, keep)


def write_log(path: Path, log: JobLog) -> tuple[str, ...]:
    """Returns sentences on what the format cannot hold. Raises InvalidFile where the file cannot be
    written."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] not in (".swf", ".json") and suffixes[-2:] not in _COMPRESSED:
        raise InvalidFile(
            f"{path}: the name says how a log is written; expected one that ends in .swf, .swf.gz, .json or "
            f".json.gz"
        )
    if ".json" in suffixes:
        from sil.workload.batsim_json import write_batsim_json

        return write_batsim_json(path, log)
    return write_swf(path, log)


_COMPRESSED = ([".swf", ".gz"], [".json", ".gz"])
"""The last suffixes of logs that are compressed when they are written."""
_NAMES = re.compile(r'"?\w+"?(,"?\w+"?)+', re.ASCII)


def _first_line(path: Path) -> str:
    with open_lines(path) as lines:
        return next((line.strip() for line in lines if line.strip()), "")


def is_csv(path: Path) -> bool:
    """Whether the first line has names of columns."""
    return _NAMES.fullmatch(_first_line(path)) is not None
