"""Slurm's accounting as a log of rigid jobs on its nodes, and in the fields of SWF."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import count
from math import ceil, inf
from pathlib import Path

import numpy as np
import polars as pl

from scheduler.messages import counted
from sil.trace.log_ids import column_of
from sil.workload.job_log import LEAST_S, SCHEMA, JobLog, possible_size
from sil.workload.settings import Overrun, Rules
from sil.workload.swf_repairs import LINE, repaired
from sil.workload.swf_writing import KeptSwf
from site_db.files.input_errors import InvalidFile
from site_db.files.plain_values import is_whole
from site_db.files.readers import Memory
from site_db.jobs.occupancy import Occupancy
from site_db.jobs.records import COMPLETED, Charged, LoggedJob, Tally
from site_db.jobs.requests import LoggedRequests, partitions_of
from site_db.jobs.sacct.columns import RAN
from site_db.jobs.sacct.reader import read_file
from site_db.jobs.sacct.times import zone_named
from site_db.jobs.swf import FIELDS, UNKNOWN, Status
from site_db.site_file.cluster import Cluster


def times_of(
    used_s: float,
    limit_s: float | None,
    partitions: frozenset[str],
    cluster: Cluster,
    rules: Rules,
    notes: Counter[str],
) -> tuple[float, float]:
    """The run time and the time limit of a job that used its nodes for `used_s` seconds.

    Without a limit, its partitions' default or largest counts, else the run time. One that ran for longer
    than its limit is treated by `rules`; but a limit that its partitions allow is not raised beyond the
    largest that they do, where the run is cut: controllers end jobs some seconds late. Repairs are counted in
    `notes`.
    """
    run_s = max(used_s, LEAST_S)
    if limit_s is None:
        limit_s = default_limit_s(partitions, cluster)
        if limit_s is None:
            notes["without a time limit; the run time is taken"] += 1
            limit_s = run_s
    may_run_s = max(limit_s, LEAST_S)
    if rules.overrun is Overrun.RAISE:
        may_run_s = max(may_run_s, cluster.longest_limit_s(partitions))
    if run_s > may_run_s:
        limit = "the time limit" if rules.overrun is Overrun.CUT else "the partition allows"
        notes[f"ran for longer than {limit}; the run is cut to the limit"] += 1
        run_s = may_run_s
    elif run_s > limit_s:
        notes["ran for longer than the time limit; the limit is raised to the run time"] += 1
    return run_s, max(limit_s, run_s)


def sentences(notes: Counter[str]) -> Iterator[str]:
    """One for each kind of repair, with its number of jobs."""
    for repair, n in notes.items():
        yield f"{counted(n, 'job')} {repair}"


def default_limit_s(partitions: frozenset[str], cluster: Cluster) -> float | None:
    """The time limit of a job that requests none: the longest that its partitions give; None if one has
    none."""
    limits = cluster.limits_of(partitions)
    longest_s = max((x.default_time_s or x.max_time_s or inf for x in limits), default=inf)
    return None if longest_s == inf else longest_s


def read_accounting(path: Path, cluster: Cluster, rules: Rules) -> JobLog:
    """The jobs of accounting that used their nodes, with what they requested (`LoggedRequests`).

    A job ends at its time limit or before; without one, the partition's default or largest counts, else its
    run time. It arrives when it was eligible to run, else when it was submitted, and keeps its account and
    QOS. Local times are of the rules' time zone. What is not modelled, or not declared by
    the cluster, is ignored, and counted in the notes. Raises InvalidFile with file and line.
    """
    tally = Tally()
    return log_of(path.name, jobs_of(path, tally, rules), tally, cluster, rules)


def log_of(name: str, jobs: Sequence[LoggedJob], tally: Tally, cluster: Cluster, rules: Rules) -> JobLog:
    """As `read_accounting`, of `jobs` in order of submission, with their tally."""
    requests, occupancy = LoggedRequests(cluster), Occupancy()
    origin_s = jobs[0].submitted_unix_s
    users = {name: x for x, name in enumerate(dict.fromkeys(job.user for job in jobs))}
    charged = {both: x for x, both in enumerate(dict.fromkeys(Charged(job.account, job.qos) for job in jobs))}
    notes = Counter[str]()
    cpus: dict[int, int] = {}
    """Of each request, in whole cores."""
    rows = []
    for number, job in zip(job_numbers(jobs), jobs, strict=True):
        used_s = job.ended_unix_s - job.started_unix_s
        run_s, limit_s = times_of(used_s, job.time_limit_s, partitions_of(job), cluster, rules, notes)
        which = requests.count(job)
        occupancy.add(job)
        if which not in cpus:
            cpus[which] = ceil(cluster.held(requests.all[which]).cpus)
        submit_s = job.submitted_unix_s - origin_s
        whom = charged[Charged(job.account, job.qos)]
        rows.append((number, submit_s, run_s, cpus[which], limit_s, users[job.user], which, whom))
    columns = {**SCHEMA, "request": pl.Int64, "charged": pl.Int64}
    table = pl.DataFrame(rows, columns, orient="row")
    table = table.with_columns(column_of((job.number for job in jobs), table["job"].to_list()))
    table = table.sort("submit_s", "job")
    cut = [
        row[0] for row, job in zip(rows, jobs, strict=True) if row[2] < job.ended_unix_s - job.started_unix_s
    ]
    return JobLog(
        name,
        table,
        cluster.cores,
        {"unixstarttime": f"{origin_s:.0f}"},
        (
            *row_sentences(tally),
            *sentences(notes),
            *tally.remarks(),
            *requests.ignored(),
            *requests.never_fit(),
            *occupancy.mistakes(cluster.nodes),
        ),
        cut=frozenset(cut),
        cluster=cluster,
        requests=tuple(requests.all),
        users={x: name for name, x in users.items()},
        charged=tuple(charged),
    )


def jobs_of(path: Path, tally: Tally, rules: Rules, states: Container[str] = RAN) -> list[LoggedJob]:
    """The jobs in some states that used their nodes, at least one, in order of submission. Raises
    InvalidFile."""
    read = read_file(path, tally, states, zone_named(rules.time_zone))
    jobs = sorted(_kept(read, path), key=lambda job: job.submitted_unix_s)
    if not jobs:
        refused = "; ".join(f"{n:,}: {reason}" for reason, n in tally.refused.most_common())
        rows = counted(tally.rows, "row")
        raise InvalidFile(f"{path}: no job of {rows} used its nodes ({refused or 'no rows'})")
    return jobs


MOST_DIGITS = 15
"""Of the number of a job."""
BYTES_OF_A_JOB, BYTES_OF_A_NAME = 1_500, 80
"""Of memory, for a job in all forms that it has here, and for the name of a node."""


def _kept(jobs: Iterator[LoggedJob], path: Path) -> Iterator[LoggedJob]:
    """Raises InvalidFile."""
    memory = Memory(path)
    for job in jobs:
        memory.take(BYTES_OF_A_JOB + BYTES_OF_A_NAME * len(job.nodes))
        yield job


def job_numbers(jobs: Sequence[LoggedJob]) -> Iterator[int]:
    """Slurm's job ids; a new number for array tasks and requeued jobs, which share one."""
    known = {int(job.number) for job in jobs if _is_number(job.number)}
    unused, used = count(max(known, default=0) + 1), set[int]()
    for job in jobs:
        number = int(job.number) if _is_number(job.number) else 0
        if number < 1 or number in used:
            number = next(unused)
        used.add(number)
        yield number


def _is_number(text: str) -> bool:
    return is_whole(text) and len(text) <= MOST_DIGITS


def row_sentences(tally: Tally) -> Iterator[str]:
    """On rows that were left out or repaired."""
    for reasons, what in ((tally.refused, "left out"), (tally.repaired, "repaired")):
        for reason, n in reasons.most_common():
            first = "" if n == 1 else "the first is "
            yield f"{counted(n, 'row')}, {first}line {tally.first_line[reason]}: {reason}; {what}"


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
