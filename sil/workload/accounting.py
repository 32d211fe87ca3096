"""Slurm's accounting as a log of rigid jobs on its nodes, and in the fields of SWF."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from itertools import count
from math import inf
from pathlib import Path

import numpy as np
import polars as pl

from scheduler.messages import counted
from scheduler.priority.claims import Claimant, Claims
from sil.trace.log_ids import column_of
from sil.workload.job_log import DUE_IN_S, MIN_S, JobLog, log_on_nodes, possible_size
from sil.workload.settings import Overrun, Rules
from sil.workload.swf_repairs import LINE, repaired, table_of
from sil.workload.swf_writing import KeptSwf
from site_db.files.access import Memory
from site_db.files.formats import is_whole, zone_named
from site_db.files.input_errors import InvalidFile
from site_db.jobs.logged import COMPLETED, Charged, LoggedJob, Tally
from site_db.jobs.occupancy import Occupancy
from site_db.jobs.requests import LoggedRequests, partitions_of
from site_db.jobs.sacct.columns import RAN
from site_db.jobs.sacct.reader import QUALITY, read_file
from site_db.jobs.swf import FIELDS, UNKNOWN, Status, SwfRow
from site_db.site_file.cluster import SiteNodes

_DEADLINE = re.compile(r"\s--deadline[= ]([^\s,;]+)")
_FROM_NOW = re.compile(r"now\+(\d{1,9})(?:(second|minute|hour|day|week)s?)?")
_SECONDS_OF = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
DEADLINE = (
    "had a deadline (--deadline in SubmitLine), for metrics and orderings by deadline; with the expiry "
    "deadline, jobs that cannot end in time leave the queue as under Slurm, and else they run"
)
UNREAD_DEADLINE = (
    "had a deadline (--deadline in SubmitLine) that is not read; expected a date like 2026-05-31T12:00, or "
    "now+2hours"
)


def times_of(
    used_s: float,
    limit_s: float | None,
    partitions: frozenset[str],
    cluster: SiteNodes,
    rules: Rules,
    notes: Counter[str],
    most_s: float = inf,
) -> tuple[float, float]:
    """The run time and the time limit of a job that used its nodes for `used_s` seconds.

    Without a limit, its partitions' default counts, or the largest that they and a policy (`most_s`) allow,
    else the run time. One that ran for longer
    than its limit is treated by `rules`; but a limit that its partitions allow is not raised beyond the
    largest that they do, where the run is cut: controllers end jobs some seconds late. Repairs are counted in
    `notes`.
    """
    run_s = max(used_s, MIN_S)
    if limit_s is not None:
        most_s = inf
    else:
        limit_s = default_limit_s(partitions, cluster, most_s)
        if limit_s is None:
            notes["without a time limit; the run time is taken"] += 1
            limit_s = run_s
    may_run_s = max(limit_s, MIN_S)
    if rules.overrun is Overrun.RAISE:
        may_run_s = max(may_run_s, min(cluster.longest_limit_s(partitions), most_s))
    if run_s > may_run_s:
        limit = "the time limit" if rules.overrun is Overrun.CUT else "the partition allows"
        notes[f"ran for longer than {limit}; the run is cut to the limit"] += 1
        run_s = may_run_s
    elif run_s > limit_s:
        notes["ran for longer than the time limit; the limit is raised to the run time"] += 1
    return run_s, max(limit_s, run_s)


def sentences(notes: Counter[str]) -> list[str]:
    """A sentence for each kind of repair, with its number of jobs."""
    return [f"{counted(n, 'job')} {repair}" for repair, n in notes.items()]


def default_limit_s(partitions: frozenset[str], cluster: SiteNodes, most_s: float = inf) -> float | None:
    """The time limit of a job that requests none: the longest that its partitions give, where they have no
    default at most `most_s`; None if one has none."""
    limits = cluster.limits_of(partitions)
    longest_s = max((x.default_time_s or min(x.max_time_s or inf, most_s) for x in limits), default=most_s)
    return None if longest_s == inf else longest_s


def _due_in_s(job: LoggedJob, zone: tzinfo, notes: Counter[str]) -> float:
    """The seconds until the deadline with which a job was submitted; infinite without one."""
    if (said := _DEADLINE.search(job.submit_line)) is None:
        return inf
    if (from_now := _FROM_NOW.fullmatch(said[1])) is not None:
        since_s = job.submitted_unix_s if job.queued_unix_s is None else job.queued_unix_s
        due_s = since_s + int(from_now[1]) * _SECONDS_OF[from_now[2] or "second"]
    else:
        try:
            moment = datetime.fromisoformat(said[1])
        except ValueError:
            notes[UNREAD_DEADLINE] += 1
            return inf
        due_s = (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
    notes[DEADLINE] += 1
    return due_s - job.submitted_unix_s


def read_accounting(path: Path, cluster: SiteNodes, rules: Rules) -> JobLog:
    """The jobs of accounting that used their nodes, with what they requested (`LoggedRequests`).

    A job ends at its time limit or before; without one, the partition's default or largest counts, else its
    run time. It arrives when it was eligible to run, else when it was submitted, and keeps its account and
    QOS. Local times are of the rules' time zone. What is not modelled, or not declared by
    the cluster, is ignored, and counted in the notes. Raises InvalidFile with file and line.
    """
    return log_of(recorded_in(path, rules), cluster, rules)


def recorded_in(path: Path, rules: Rules, states: Container[str] = RAN) -> RecordedJobs:
    """The jobs of accounting in some states (`jobs_of`). Raises InvalidFile."""
    tally = Tally()
    return RecordedJobs(path.name, jobs_of(path, tally, rules, states), tally)


@dataclass(frozen=True)
class RecordedJobs:
    """Jobs in order of submission, with the tally of their rows. `requests_at` makes what they request of a
    cluster."""

    name: str
    jobs: Sequence[LoggedJob]
    tally: Tally
    requests_at: Callable[[SiteNodes], LoggedRequests] = LoggedRequests


def log_of(recorded: RecordedJobs, cluster: SiteNodes, rules: Rules) -> JobLog:
    """As `read_accounting`, of jobs that are recorded."""
    jobs, tally = recorded.jobs, recorded.tally
    requests, occupancy, claims = recorded.requests_at(cluster), Occupancy(), None
    if cluster.policy is not None:
        claims = Claims(cluster.policy, tuple(cluster.nodes.values()))
        tally.remarked.pop(QUALITY, None)  # QOS are modelled
    origin_s = jobs[0].submitted_unix_s
    users, charged, cpus = dict[str, int](), dict[Charged, int](), dict[int, int]()
    notes, cut, rows, failed = Counter[str](), set[int](), [], list[int]()
    zone, due_in_s = zone_named(rules.time_zone), list[float]()
    for number, job in zip(job_numbers(jobs), jobs, strict=True):
        used_s = job.ended_unix_s - job.started_unix_s
        within, who = partitions_of(job), Claimant(job.user, job.account, job.qos)
        most_s = inf if claims is None else claims.longest_s(who, within)
        run_s, limit_s = times_of(used_s, job.time_limit_s, within, cluster, rules, notes, most_s)
        which = requests.count(job)
        occupancy.add(job)
        if which not in cpus:  # in whole cores
            cpus[which] = requests.cpus(job)
        user = users.setdefault(job.user, len(users))
        whom = charged.setdefault(Charged(job.account, job.qos), len(charged))
        submit_s = job.submitted_unix_s - origin_s
        rows.append((number, submit_s, run_s, cpus[which], limit_s, user, which, whom))
        due_in_s.append(_due_in_s(job, zone, notes))
        if run_s < used_s:
            cut.add(number)
        if job.state != COMPLETED:
            failed.append(number)
    of_jobs = (*sentences(notes), *tally.remarks(), *requests.ignored(), *requests.never_fit())
    log = log_on_nodes(
        recorded.name,
        rows,
        cluster,
        requests.all,
        (job.number for job in jobs),
        header={"unixstarttime": f"{origin_s:.0f}"},
        notes=(*row_sentences(tally), *of_jobs, *occupancy.mistakes(cluster.nodes)),
        cut=frozenset(cut),
        unsuccessful=failed,
        users={user: name for name, user in users.items()},
        charged=tuple(charged),
        zone=zone,
    ).with_resets()
    if min(due_in_s) == inf:
        return log
    due = pl.DataFrame({"job": [row[0] for row in rows], DUE_IN_S: due_in_s})
    return replace(log, jobs=log.jobs.join(due, on="job", maintain_order="left"))


def jobs_of(path: Path, tally: Tally, rules: Rules, states: Container[str] = RAN) -> list[LoggedJob]:
    """The jobs in some states that used their nodes, at least one, in order of submission. Raises
    InvalidFile."""
    memory, jobs = Memory(path), list[LoggedJob]()
    for job in read_file(path, tally, states, zone_named(rules.time_zone)):
        memory.take(BYTES_OF_A_JOB + BYTES_OF_A_NAME * len(job.nodes))
        jobs.append(job)
    if not jobs:
        refused = "; ".join(f"{n:,}: {reason}" for reason, n in tally.refused.most_common())
        rows = counted(tally.rows, "row")
        raise InvalidFile(f"{path}: no job of {rows} used its nodes ({refused or 'no rows'})")
    return sorted(jobs, key=lambda job: job.submitted_unix_s)


MAX_DIGITS = 15
"""The most digits of the number of a job."""
BYTES_OF_A_JOB, BYTES_OF_A_NAME = 1_500, 80
"""The memory, in bytes, for a job in all forms that it has here, and for the name of a node."""


def job_numbers(jobs: Sequence[LoggedJob]) -> Iterator[int]:
    """Slurm's job ids; a new number for array tasks and requeued jobs, which share one."""
    ids = [int(x.number) if is_whole(x.number) and len(x.number) <= MAX_DIGITS else 0 for x in jobs]
    unused, used = count(max(ids, default=0) + 1), set[int]()
    for id in ids:
        number = id if id >= 1 and id not in used else next(unused)
        used.add(number)
        yield number


def row_sentences(tally: Tally) -> Iterator[str]:
    """Sentences on rows that were left out or repaired."""
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
        times_s = np.array([time_s for job in jobs for time_s in (job.started_unix_s, job.ended_unix_s)])
        changes = np.array([change for job in jobs for change in (job.processors, -job.processors)])
        in_order = np.lexsort((changes, times_s))  # runs that end make room for those that start then
        size = int(np.cumsum(changes[in_order]).max())
        notes += (
            f"accounting does not say how large the machine is; the most processors in use at a time, "
            f"{size:,}, are taken",
        )
    rows, comments = _rows(jobs)
    found = repaired(table_of(rows).select(LINE, *FIELDS), {}, size, rules, path)
    ids = {row.job: job.number for row, job in zip(rows, jobs, strict=True)}
    of_number = {int(row.job): job for row, job in zip(rows, jobs, strict=True)}
    numbers = found.jobs["job"].to_list()
    table = found.jobs.with_columns(column_of((ids[number] for number in numbers), numbers))
    header = {"unixstarttime": f"{jobs[0].submitted_unix_s:.0f}", "timezonestring": "UTC"}
    kept = KeptSwf(found.rows.select(FIELDS), (*(f"; {line}" for line in comments),), _lost(jobs))
    notes = (*notes, *found.notes)
    failed = [number for number, job in of_number.items() if job.state != COMPLETED]
    return JobLog(path.name, table, size, header, notes, cut=found.cut, kept=kept, unsuccessful=failed)


def _rows(jobs: Sequence[LoggedJob]) -> tuple[list[SwfRow], list[str]]:
    """The rows of jobs, and the comments that explain the numbers of queues and partitions."""
    origin_s = jobs[0].submitted_unix_s
    users, groups, programs, queues, partitions = (
        {text: float(n) for n, text in enumerate(dict.fromkeys(filter(None, texts)), start=1)}
        for texts in zip(*((x.user, x.account, x.program, x.qos, x.partition) for x in jobs), strict=True)
    )
    memory_mib = (job.resources.memory_mib for job in jobs)
    rows = [
        SwfRow(
            job.line,
            job=float(number),
            submit=job.submitted_unix_s - origin_s,
            wait=job.started_unix_s - job.submitted_unix_s,
            run=job.ended_unix_s - job.started_unix_s,
            allocated=float(job.processors),
            requested=float(job.processors),
            requested_time=UNKNOWN if job.time_limit_s is None else job.time_limit_s,
            requested_memory=float(round(mib * KIB_OF_A_MIB / job.processors)) if mib else UNKNOWN,
            status=float(_STATUS.get(job.state, Status.FAILED)),
            user=users.get(job.user, UNKNOWN),
            group=groups.get(job.account, UNKNOWN),
            executable=programs.get(job.program, UNKNOWN),
            queue=queues.get(job.qos, UNKNOWN),
            partition=partitions.get(job.partition, UNKNOWN),
        )
        for number, job, mib in zip(job_numbers(jobs), jobs, memory_mib, strict=True)
    ]
    comments = [
        f"UnixStartTime: {origin_s:.0f}",
        "TimeZoneString: UTC",
        *(f"Queue: {n:.0f} {name}" for name, n in queues.items()),
        *(f"Partition: {n:.0f} {name}" for name, n in partitions.items()),
        "Note: from Slurm's accounting; groups are accounts, executables names of jobs, queues are QOS",
    ]
    return rows, comments


def _lost(jobs: Sequence[LoggedJob]) -> dict[str, int]:
    return {
        "GPUs": sum(bool(job.resources.gpus) for job in jobs),
        "other resources": sum(bool(job.resources.others or job.resources.site_resources) for job in jobs),
        "numbers and names of nodes": sum(bool(job.nodes) or job.resources.nodes > 1 for job in jobs),
        "constraints": sum(bool(job.constraints) for job in jobs),
        "several partitions": sum("," in job.partition for job in jobs),
        "names of users, accounts and jobs": len(jobs),
    }
