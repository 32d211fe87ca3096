"""The jobs of accounting as they were: what had ended, what ran and what waited at any time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np

from scheduler.free_nodes.runtime_estimates import LONGEST_S
from scheduler.messages import counted
from sil.forecast.forward import KnownJobs, PolicyOfLog
from sil.rehearsal.month import as_submitted
from sil.rehearsal.submissions import HowSubmitted
from sil.runs.under_test import UnderTest
from sil.settings.log_events import Events
from sil.site.logs import LogFile
from sil.workload.accounting import RecordedJobs, default_limit_s, job_numbers, jobs_of, log_of
from sil.workload.job_log import MIN_S
from site_db.files.formats import zone_named
from site_db.jobs.logged import LoggedJob, Tally
from site_db.jobs.requests import partitions_of
from site_db.jobs.sacct.columns import PENDING, RAN, RUNNING
from site_db.jobs.sacct.reader import UNFINISHED
from site_db.site_file.cluster import SiteNodes
from site_db.site_file.machine_names import expand, patterns

OPEN = frozenset({RUNNING, PENDING})


def recorded(path: Path, how: LogFile, cluster: SiteNodes, scheduler: UnderTest) -> KnownJobs:
    """The jobs of accounting with their recorded times, and those that run and wait, as `sacct` and `squeue`
    print them. Those that are not eligible are held, unless SubmitLine has their dependencies. Raises
    InvalidFile."""
    tally = Tally()
    jobs = _once(jobs_of(path, tally, how, RAN | OPEN))
    runs = [job.ended_unix_s for job in jobs if job.state == RUNNING]
    ineligible = {job.line for job in jobs if job.submitted_unix_s == inf}
    for job in jobs:
        if job.line in ineligible:
            job.submitted_unix_s, job.queued_unix_s = job.queued_unix_s or inf, None
    now_s = max(runs or (x for job in jobs for x in (job.submitted_unix_s, job.ended_unix_s) if x < inf))
    jobs.sort(key=lambda job: job.submitted_unix_s)
    numbered = dict(zip(job_numbers(jobs), jobs, strict=True))
    open_ = {number: job for number, job in numbered.items() if job.state in OPEN}
    submitted = HowSubmitted([*open_.values()], cluster.site_resources, cluster.nodes, ())
    running = [number for number, job in open_.items() if job.state == RUNNING]
    events = as_submitted(submitted, open_, running, tally)
    options = {number: dict(events.options.get(number, {})) for number in open_}
    held = [n for n, job in open_.items() if job.line in ineligible and "dependency" not in options[n]]
    options |= {number: {**options[number], "hold": True} for number in held}
    tally.remarked = {what: ids for what, ids in tally.remarked.items() if ids and what != UNFINISHED}
    as_run = [_as_run(job, now_s, cluster) for job in jobs]
    log = log_of(RecordedJobs(path.name, as_run, tally), cluster, how)
    of_held = f"not eligible to start before --events releases them: {counted(len(held), 'waiting job')}"
    log = replace(
        log,
        notes=(*log.notes, *log.not_associated, *([of_held] if held else [])),
        unsuccessful=[number for number in log.unsuccessful if number not in open_],
        zone=zone_named(how.time_zone),
    )
    ordered, origin_s = [numbered[number] for number in log.jobs["job"]], jobs[0].submitted_unix_s
    start_s = np.array([job.started_unix_s for job in ordered]) - origin_s
    end_s = np.array([inf if job.state == RUNNING else job.ended_unix_s for job in ordered]) - origin_s
    policy = PolicyOfLog(log, scheduler, replace(events, options=options)).under(Events())
    return KnownJobs(policy, start_s, end_s, now_s - origin_s)


def _once(jobs: Sequence[LoggedJob]) -> list[LoggedJob]:
    """Each task of arrays that wait; of jobs that run or wait, the last of their rows."""
    found, last = list[LoggedJob](), dict[str, int]()
    for job in sorted(jobs, key=lambda job: job.line):
        for name in _tasks(job.number) if job.state == PENDING else (job.number,):
            if job.state in OPEN:
                last[name] = len(found)
            found.append(replace(job, number=name, line=len(found)))
    return [job for k, job in enumerate(found) if job.state not in OPEN or last[job.number] == k]


def _tasks(number: str) -> Sequence[str]:
    """The tasks of an array like 7_[1-3%2]; the number itself of other jobs, and where the list is cut."""
    try:
        listed = number.partition("%")[0].rstrip("]") + "]" if "[" in number else number
        return tuple(expand(patterns(listed)))
    except ValueError:
        return (number,)


def _as_run(job: LoggedJob, now_s: float, cluster: SiteNodes) -> LoggedJob:
    """A job with a time limit, if it runs or waits; one that waits as if it started as soon as it can."""
    if job.state in OPEN and job.time_limit_s is None:
        job = replace(job, time_limit_s=default_limit_s(partitions_of(job), cluster, LONGEST_S))
    if job.state == PENDING:
        start_s = max(now_s, job.submitted_unix_s)
        job = replace(job, started_unix_s=start_s, ended_unix_s=start_s + MIN_S)
    return job
