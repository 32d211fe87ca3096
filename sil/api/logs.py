"""Logs of jobs: readers, and a model that makes them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from scheduler import UserError
from sil.declared import as_keyword, spread
from sil.site.log_file import LogFile
from sil.workload.job_log import JobLog


@spread(as_keyword)
def read_log(path: str | Path, *, file: LogFile) -> JobLog:
    """The jobs of a log: Standard Workload Format, or a Batsim workload (JSON); plain or compressed. With
    `nodes` or `site`, also Slurm's accounting (the output of `sacct -P` or `sacct --json`) and Alibaba's pods
    (CSV); then jobs request parts of these nodes.

    {file}

    Repairs are in `notes` of the result. Times are seconds from the beginning of the log. Raises UserError if
    a file cannot be read.
    """
    from site_db.files.readers import forget_pipes

    if not isinstance(path, str | os.PathLike):
        raise UserError(f"path is a {type(path).__name__}; expected a file, or sil.log_from for a table")
    forget_pipes()
    return file.read(Path(path), file.cluster())


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
