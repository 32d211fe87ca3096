"""Slurm's accounting (`sacct -P -X`) as a log of jobs that request parts of a cluster's nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from itertools import count
from math import ceil
from pathlib import Path

import polars as pl

from scheduler import counted
from sil.trace.log_ids import column_of
from sil.workload.job_log import SCHEMA, JobLog
from sil.workload.swf_rules import Rules
from sil.workload.time_limits import sentences, times_of
from site_db.files.given import InvalidFile
from site_db.files.memory import Memory
from site_db.files.plain_numbers import is_whole
from site_db.jobs.logs.logged_job import Charged, LoggedJob, Tally
from site_db.jobs.logs.occupancy import Occupancy
from site_db.jobs.logs.requests import LoggedRequests, partitions_of
from site_db.jobs.sacct.reader import read_file
from site_db.jobs.sacct.states import RAN
from site_db.jobs.sacct.times import zone_named
from site_db.site_file.cluster import Cluster


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
