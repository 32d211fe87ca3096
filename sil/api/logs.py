"""Logs of jobs: readers, and a model that makes them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler import UserError
from sil.api.settings import choice
from sil.workload.job_log import JobLog
from sil.workload.swf_rules import Overrun, Rules, TooLarge

if TYPE_CHECKING:
    from site_db.site_file.cluster import Cluster


def read_log(
    path: str | Path,
    *,
    nodes: str | Path | None = None,
    site: str | None = None,
    processors: int | None = None,
    strict: bool = False,
    overrun: str = "raise",
    too_large: str = "clip",
    time_zone: str | None = None,
) -> JobLog:
    """The jobs of a log: Standard Workload Format, or a Batsim workload (JSON); plain or compressed.

    With `nodes`, a file that describes nodes with cores, memory and GPUs (slurm.conf, the output of
    `scontrol show node`, a site file, Alibaba's CSV), or `site`, an address like "site.db#SITE", also
    Slurm's accounting (the output of `sacct -P` or `sacct --json`) and Alibaba's pods (CSV); then jobs
    request parts of these nodes. `time_zone`, like "Europe/Berlin", is that of dates and of local
    times in accounting; by default it is UTC.

    `processors` overrides the size of the machine. `strict` refuses a log that needs repairs, which are
    otherwise in `notes` of the result. `overrun` says what becomes of jobs that exceeded their estimate
    ("raise" it, or "cut" the run), `too_large` of jobs larger than the machine ("clip", "skip" or "stop").

    Times are seconds from the beginning of the log. Raises UserError if a file cannot be read.
    """
    from sil.site.logs import read_log
    from site_db.files.readers import forget_pipes

    if not isinstance(path, str | os.PathLike):
        raise UserError(f"path is a {type(path).__name__}; expected a file, or sil.log_from for a table")
    forget_pipes()
    rules = Rules(
        strict,
        choice(Overrun, overrun, "overrun"),
        choice(TooLarge, too_large, "too_large"),
        time_zone,
    )
    files = [] if nodes is None else [Path(nodes)]
    return read_log(Path(path), rules, processors, read_nodes(nodes, site), files)


def log_from(table: Any, processors: int, *, name: str = "table") -> JobLog:
    """The jobs in a table, for a machine with this number of processors.

    `table` is a data frame of Polars or pandas, an Arrow table, or a dictionary of columns: `submit_s` and
    `run_s` in seconds, `processors`, and if known `job` (a number; by default 1, 2, ...), `estimate_s` (by
    default the run time) and `user` (a number or a name). Other columns are left out, with a note. `name` is
    that of the log in results. Raises UserError with the row, from 0 on, of a value that no job can have.
    """
    from sil.workload.tables import log_from_table

    return log_from_table(table, processors, name)


def lublin_feitelson(jobs: int, processors: int, *, load: float | None = None, seed: int = 0) -> JobLog:
    """Jobs of the model of Lublin and Feitelson (2003) for a machine with this number of processors.

    Users estimate run times exactly. `load` is the load that the jobs offer, within 1 %, by default that of
    the model: they come more or less often, with the same busy and quiet hours of the day. Raises UserError
    for impossible numbers and loads.
    """
    import numpy as np

    from sil.workload.lublin import Lublin

    return Lublin().jobs(jobs, processors, np.random.default_rng(seed), load)


def read_nodes(nodes: str | Path | None, site: str | None) -> Cluster | None:
    """Those in a file, or of a site in a database; None without either. Raises UserError."""
    if nodes is not None and site is not None:
        raise UserError("a file of nodes and a site are given, and both name the nodes; give one of them")
    if nodes is None and site is None:
        return None  # before the database is loaded
    from sil.site import logs
    from site_db.store import parse_address

    if site is not None:
        return logs.nodes_in_database(parse_address(site))
    return logs.read_nodes_of(Path(nodes)) if nodes is not None else None
