"""The past jobs of a site of nodes, as a log."""

from __future__ import annotations

from collections import Counter
from math import ceil

import polars as pl
from sqlalchemy.orm import Session

from sil.workload.job_log import SCHEMA, JobLog
from sil.workload.swf_rules import Rules
from sil.workload.time_limits import sentences, times_of
from site_db.jobs.logs.logged_job import Tally
from site_db.jobs.past import past_jobs
from site_db.jobs.sacct.remarks import HETEROGENEOUS, heterogeneous
from site_db.site_file.nodes import cluster_of, held_by_class, requests_at
from site_db.site_file.tables import SiteFile
from site_db.sites import find_site


def past_log(session: Session, file: SiteFile, days: float | None) -> JobLog:
    """The jobs that the database has of a site, with what their classes request. Raises UserError."""
    jobs = past_jobs(session, find_site(session, file.name).id, file.name, days)
    cluster, notes = cluster_of(file), Counter[str]()
    requests = requests_at(file, cluster)
    position = {name: k for k, name in enumerate(requests)}
    cpus = {name: ceil(held.cpus) for name, held in held_by_class(file, cluster).items()}
    users = {name: x for x, name in enumerate(dict.fromkeys(job.user for job in jobs))}
    origin_s = jobs[0].submitted_unix_s
    tally, rows = Tally(), []
    for number, job in enumerate(jobs, start=1):
        request = requests[job.job_class]
        if (whole_job := heterogeneous(job.number)) is not None:
            tally.remark(HETEROGENEOUS, whole_job)
        run_s, limit_s = times_of(job.run_s, job.time_limit_s, request.partitions, cluster, Rules(), notes)
        submit_s = job.submitted_unix_s - origin_s
        rows.append(
            (number, submit_s, run_s, cpus[job.job_class], limit_s, users[job.user], position[job.job_class])
        )
    return JobLog(
        f"the history of {file.name}",
        pl.DataFrame(rows, {**SCHEMA, "request": pl.Int64}, orient="row"),
        cluster.cores,
        {"unixstarttime": f"{origin_s:.0f}"},
        (*sentences(notes), *tally.remarks()),
        cluster=cluster,
        requests=tuple(requests.values()),
        job_classes=tuple(requests),
        users={x: name for name, x in users.items()},
    )
