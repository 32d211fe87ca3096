"""Writing logs in the Standard Workload Format, version 2.2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from sil.trace.log_ids import LOG_ID
from sil.workload.job_log import JobLog, losses
from site_db.files.access import write_bytes
from site_db.jobs.swf import FIELDS, header_field

_KEYS = (
    *("MaxJobs", "MaxRecords", "MaxProcs", "MaxNodes", "Computer", "Installation", "Acknowledge"),
    *("Information", "UnixStartTime", "TimeZoneString", "StartTime", "EndTime", "Note"),
)
TITLES = {key.lower(): key for key in _KEYS}
"""The keys of the header by their names in lower case."""
_OURS = ("version", "maxjobs", "maxrecords", "maxprocs")
_OF_JOBS = ("job", "submit", "run", "requested", "requested_time", "user")
"""The fields that are columns of a log's jobs, too."""


@dataclass(frozen=True)
class KeptSwf:
    """What a log has beyond the columns of its jobs: the fields of each job (FIELDS, by its number; -1 where
    unknown), and its comments."""

    fields: pl.DataFrame
    comments: tuple[str, ...] = ()
    lost: Mapping[str, int] = field(default_factory=dict)
    """What has no field, with the number of its jobs."""

    def of(self, log: JobLog) -> pl.DataFrame:
        """The fields of the jobs of a log, in its order."""
        return log.jobs.select("job").join(
            self.fields.with_columns(pl.col("job").cast(pl.Int64)),
            on="job",
            how="left",
            maintain_order="left",
        )

    def others(self, log: JobLog) -> dict[str, int]:
        """What no other format holds, with the number of its jobs (or comments)."""
        of_jobs = self.of(log)
        known = {
            name.replace("_", " "): int((of_jobs[name] >= 0).sum())
            for name in FIELDS
            if name not in (*_OF_JOBS, "allocated")
        }
        return {**known, "comments of the header": len(self.comments), **self.lost}


def write_swf(path: Path, log: JobLog) -> tuple[str, ...]:
    """Write a log, compressed if the name ends in .gz, with the fields and comments that it keeps; unknown
    fields are -1. Returns sentences on what the format cannot hold. Raises InvalidFile if it cannot be
    written."""
    kept = log.kept if isinstance(log.kept, KeptSwf) else None
    n, size = str(len(log.jobs)), str(log.processors)
    known = {
        "job": pl.col("job").cast(pl.String),
        "submit": _as_text("submit_s"),
        "run": _as_text("run_s"),
        "allocated": pl.col("processors").cast(pl.String),
        "requested": pl.col("processors").cast(pl.String),
        "requested_time": _as_text("estimate_s"),
        "status": pl.lit("1"),
        "user": pl.col("user").cast(pl.String),
    }
    jobs = log.jobs
    if kept is not None:
        others = [name for name in FIELDS if name not in _OF_JOBS]
        jobs = jobs.hstack(kept.of(log).select(pl.col(others).fill_null(-1.0).name.prefix("swf_")))
        jobs = jobs.with_columns(
            swf_allocated=pl.min_horizontal("swf_allocated", pl.lit(float(log.processors)))
        )
        known |= {name: _as_text(f"swf_{name}") for name in others}
    columns = [known.get(name, pl.lit("-1")) for name in FIELDS]
    rows = jobs.select(pl.concat_str(columns, separator=" ")).to_series().to_list()
    head = [
        "; Version: 2.2",
        *_comments(log, kept),
        f"; MaxJobs: {n}",
        f"; MaxRecords: {n}",
        f"; MaxProcs: {size}",
    ]
    write_bytes(path, ("\n".join([*head, *rows]) + "\n").encode())
    return tuple(_lost(log, kept))


def _comments(log: JobLog, kept: KeptSwf | None) -> list[str]:
    """The comments of a log, except those that count its jobs and processors."""
    if kept is None or not kept.comments:
        return [f"; {TITLES.get(key, key)}: {value}" for key, value in log.header.items() if key not in _OURS]
    return [line for line in kept.comments if (header_field(line) or ("",))[0] not in _OURS]


def _lost(log: JobLog, kept: KeptSwf | None) -> list[str]:
    lost = dict(kept.lost) if kept is not None else {} if log.kept is None else log.kept.others(log)
    if LOG_ID in log.jobs.columns:
        n = int((log.jobs[LOG_ID] != log.jobs["job"].cast(pl.String)).sum())
        lost = {"ids that are not the numbers of their jobs": n, **lost}
    return losses(lost, "the Standard Workload Format")


def _as_text(name: str) -> pl.Expr:
    column = pl.col(name)
    whole = column.round() == column
    return pl.when(whole).then(column.cast(pl.Int64).cast(pl.String)).otherwise(column.cast(pl.String))
