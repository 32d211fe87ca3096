"""Slurm's accounting in the fields of the Standard Workload Format: jobs on identical processors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from sil.trace.log_ids import column_of
from sil.workload.accounting import job_numbers, jobs_of, row_sentences
from sil.workload.archive.repairs import LINE, repaired
from sil.workload.archive.writing import KeptSwf
from sil.workload.job_log import JobLog, possible_size
from sil.workload.swf_rules import Rules
from site_db.jobs.logs.logged_job import COMPLETED, LoggedJob, Tally
from site_db.jobs.logs.swf_format import FIELDS, UNKNOWN, Status

KIB_OF_A_MIB = 1024
_STATUS = {COMPLETED: Status.COMPLETED, "CANCELLED": Status.CANCELLED}


def read_on_processors(path: Path, rules: Rules, processors: int | None = None) -> JobLog:
    """The jobs of accounting that used their nodes, each on as many processors as it had. The machine has
    `processors`, else the most that were in use at a time. Names become numbers. Raises InvalidFile."""
    tally = Tally()
    jobs = jobs_of(path, tally, rules)
    notes = (*row_sentences(tally), *tally.remarks())
    if processors is not None:
        size = possible_size(processors, path)
    else:
        size = _most_in_use(jobs)
        notes += (
            f"accounting does not say how large the machine is; the most processors in use at a time, "
            f"{size:,}, are taken",
        )
    origin_s = jobs[0].submitted_unix_s
    columns, comments = _fields(jobs, origin_s)
    lines = pl.Series(LINE, [job.line for job in jobs], pl.UInt32)
    rows = pl.DataFrame(columns, schema=dict.fromkeys(FIELDS, pl.Float64)).with_columns(lines)
    found = repaired(rows, {}, size, rules, path)
    ids = dict(zip(columns["job"], (job.number for job in jobs), strict=True))
    numbers = found.jobs["job"].to_list()
    table = found.jobs.with_columns(column_of((ids[number] for number in numbers), numbers))
    header = {"unixstarttime": f"{origin_s:.0f}", "timezonestring": "UTC"}
    kept = KeptSwf(found.rows.select(FIELDS), (*(f"; {line}" for line in comments),), _lost(jobs))
    return JobLog(path.name, table, size, header, (*notes, *found.notes), cut=found.cut, kept=kept)


def _fields(jobs: Sequence[LoggedJob], origin_s: float) -> tuple[dict[str, list[float]], list[str]]:
    """The fields of jobs, and the comments that explain the numbers of queues and partitions."""
    names = {
        "user": [job.user for job in jobs],
        "group": [job.account for job in jobs],
        "executable": [job.program for job in jobs],
        "queue": [job.qos for job in jobs],
        "partition": [job.partition for job in jobs],
    }
    numbers = {field: _numbers(texts) for field, texts in names.items()}
    known: dict[str, list[float]] = {
        "job": [float(number) for number in job_numbers(jobs)],
        "submit": [job.submitted_unix_s - origin_s for job in jobs],
        "wait": [job.started_unix_s - job.submitted_unix_s for job in jobs],
        "run": [job.ended_unix_s - job.started_unix_s for job in jobs],
        "allocated": [float(job.processors) for job in jobs],
        "requested": [float(job.processors) for job in jobs],
        "requested_time": [UNKNOWN if job.time_limit_s is None else job.time_limit_s for job in jobs],
        "requested_memory": [_kib_of_a_processor(job) for job in jobs],
        "status": [float(_STATUS.get(job.state, Status.FAILED)) for job in jobs],
        **{field: [found.get(text, UNKNOWN) for text in names[field]] for field, found in numbers.items()},
    }
    comments = [
        f"UnixStartTime: {origin_s:.0f}",
        "TimeZoneString: UTC",
        *(f"Queue: {n:.0f} {name}" for name, n in numbers["queue"].items()),
        *(f"Partition: {n:.0f} {name}" for name, n in numbers["partition"].items()),
        "Note: from Slurm's accounting; groups are accounts, executables names of jobs, queues are QOS",
    ]
    return {field: known.get(field, [UNKNOWN] * len(jobs)) for field in FIELDS}, comments


def _numbers(texts: Iterable[str]) -> dict[str, float]:
    """From 1 on, in order of appearance; none for the empty text."""
    return {text: float(n) for n, text in enumerate(dict.fromkeys(filter(None, texts)), start=1)}


def _kib_of_a_processor(job: LoggedJob) -> float:
    mib = job.resources.memory_mib
    return float(round(mib * KIB_OF_A_MIB / job.processors)) if mib else UNKNOWN


def _most_in_use(jobs: Sequence[LoggedJob]) -> int:
    times_s = np.array([time_s for job in jobs for time_s in (job.started_unix_s, job.ended_unix_s)])
    changes = np.array([change for job in jobs for change in (job.processors, -job.processors)])
    in_order = np.lexsort((changes, times_s))  # runs that end make room for those that start then
    return int(np.cumsum(changes[in_order]).max())


def _lost(jobs: Sequence[LoggedJob]) -> dict[str, int]:
    return {
        "GPUs": sum(bool(job.resources.gpus) for job in jobs),
        "other resources": sum(bool(job.resources.others or job.resources.site_resources) for job in jobs),
        "numbers and names of nodes": sum(bool(job.nodes) or job.resources.nodes > 1 for job in jobs),
        "constraints": sum(bool(job.constraints) for job in jobs),
        "several partitions": sum("," in job.partition for job in jobs),
        "names of users, accounts and jobs": len(jobs),
    }
