"""Slurm's accounting (`sacct -P -X`) as a log of jobs that request parts of a cluster's nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from math import ceil
from pathlib import Path

import polars as pl

from scheduler.node_request import Gpus, Request
from sil.workload.cluster import Cluster
from sil.workload.job_log import LEAST_S, SCHEMA, BadLog, JobLog
from sil.workload.swf_rules import Overrun, Rules
from site_db.jobs.logs.log_file import open_log
from site_db.jobs.logs.logged_job import LoggedJob, Tally
from site_db.jobs.logs.sacct import RAN, read_sacct
from site_db.jobs.logs.tres import Tres


def read_accounting(path: Path, cluster: Cluster, rules: Rules) -> JobLog:
    """The jobs of accounting that used their nodes, with what they requested.

    A job requests its own resources (ReqTRES, else AllocTRES and the older columns) on as many nodes as it
    had, in equal parts; where its CPUs cannot be divided so, they are tasks of one core, anywhere. CPUs are
    rounded up to whole cores. A job of a partition that is exclusive takes whole nodes. It ends at its time
    limit or before; without one, the partition's default or largest counts, else its run time. It arrives
    when it was submitted. Licences that the cluster does not declare are ignored, and counted in the notes.
    Raises BadLog with file and line.
    """
    tally, requests = Tally(), _Requests(cluster)
    with open_log(path) as lines:
        jobs = sorted(read_sacct(lines, path, tally, RAN), key=lambda job: job.submitted_unix_s)
    if not jobs:
        refused = "; ".join(f"{n:,}: {reason}" for reason, n in tally.refused.most_common())
        raise BadLog(f"{path}: no job of {tally.rows:,} rows used its nodes ({refused or 'no rows'})")
    origin_s = jobs[0].submitted_unix_s
    users = {name: x for x, name in enumerate(dict.fromkeys(job.user for job in jobs))}
    notes = Counter[str]()
    rows = []
    for number, job in zip(_numbers(jobs), jobs, strict=True):
        run_s, limit_s = _times(job, cluster, rules, notes)
        which, cores = requests.place(job)
        notes.update(_undeclared(job, cluster))
        rows.append((number, job.submitted_unix_s - origin_s, run_s, cores, limit_s, users[job.user], which))
    table = pl.DataFrame(rows, {**SCHEMA, "request": pl.Int64}, orient="row").sort("submit_s", "job")
    cut = [
        row[0] for row, job in zip(rows, jobs, strict=True) if row[2] < job.ended_unix_s - job.started_unix_s
    ]
    return JobLog(
        path.name,
        table,
        cluster.cores,
        {"unixstarttime": f"{origin_s:.0f}"},
        (*_sentences(tally), *(f"{n:,} jobs: {what}" for what, n in notes.items()), *requests.never_fit()),
        cut=frozenset(cut),
        cluster=cluster,
        requests=tuple(requests.all),
        users={x: name for name, x in users.items()},
    )


def _numbers(jobs: list[LoggedJob]) -> Iterator[int]:
    """Slurm's job ids; a new number for array tasks and requeued jobs, which share one."""
    known = {int(job.number) for job in jobs if job.number.isdecimal()}
    unused, used = count(max(known, default=0) + 1), set[int]()
    for job in jobs:
        number = int(job.number) if job.number.isdecimal() else 0
        if number < 1 or number in used:
            number = next(unused)
        used.add(number)
        yield number


def _times(job: LoggedJob, cluster: Cluster, rules: Rules, notes: Counter[str]) -> tuple[float, float]:
    """The run time and the time limit of a job."""
    run_s = max(job.ended_unix_s - job.started_unix_s, LEAST_S)
    limit_s = job.time_limit_s
    if limit_s is None:
        limits = [cluster.partitions[name] for name in _partitions(job) if name in cluster.partitions]
        limit_s = max((x.default_time_s or x.max_time_s or 0.0 for x in limits), default=0.0)
        if not limit_s:
            notes["no time limit; the run time is taken"] += 1
            limit_s = run_s
    if run_s > limit_s:
        if rules.overrun is Overrun.CUT:
            notes["it ran for longer than its time limit; the run is cut to the limit"] += 1
            return max(limit_s, LEAST_S), max(limit_s, LEAST_S)
        notes["it ran for longer than its time limit; the limit is raised to the run time"] += 1
        limit_s = run_s
    return run_s, limit_s


def _partitions(job: LoggedJob) -> frozenset[str]:
    return frozenset(filter(None, job.partition.split(",")))


def _undeclared(job: LoggedJob, cluster: Cluster) -> Iterator[str]:
    """A sentence for each of the site's resources that a job requests and the cluster does not declare."""
    for name, amount in job.resources.site_resources.items():
        if amount and cluster.site_resource(name) is None:
            yield f"{name} is requested, which the cluster does not declare (Licenses in slurm.conf); ignored"


def _sentences(tally: Tally) -> Iterator[str]:
    for counted, what in ((tally.refused, "left out"), (tally.repaired, "repaired")):
        for reason, n in counted.most_common():
            yield f"{n:,} rows, the first is line {tally.first_line[reason]}: {reason}; {what}"


class _Requests:
    """The different requests of jobs, in order of their first."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.all: list[Request] = []
        self._places: dict[object, int] = {}
        self._jobs: list[list[str]] = []
        """The numbers of the jobs with each request."""

    def place(self, job: LoggedJob) -> tuple[int, int]:
        """The place of a job's request in `all`, and its cores."""
        tres, partitions = job.resources, _partitions(job)
        gpus, others = tuple(sorted(tres.gpus.items())), tuple(sorted(tres.others.items()))
        of_site = tuple(sorted(tres.site_resources.items()))
        key = tres.cpus, tres.nodes, tres.memory_mib, gpus, others, partitions, of_site
        if key not in self._places:
            self._places[key] = len(self.all)
            self.all.append(self._request(tres, partitions))
            self._jobs.append([])
        place = self._places[key]
        self._jobs[place].append(job.number)
        return place, max(1, ceil(self.all[place].chunks * self.all[place].cores))

    def never_fit(self) -> Iterator[str]:
        """A sentence for each request that the nodes, or the site's resources, cannot satisfy."""
        for request, jobs in zip(self.all, self._jobs, strict=True):
            beyond = request.beyond(self._cluster.site_resources)
            if beyond is not None:
                yield f"{_the_first(jobs)}: the site has {beyond} for {request}; refused when it arrives"
                continue
            if sum(map(request.chunks_on, self._cluster.nodes.values())) < request.chunks:
                where = f" in partition {','.join(sorted(request.partitions))}" if request.partitions else ""
                yield f"{_the_first(jobs)}: no nodes{where} can satisfy {request}; refused when it arrives"

    def _request(self, tres: Tres, partitions: frozenset[str]) -> Request:
        threads = self._cluster.threads_in(partitions)
        limits = self._cluster.partitions
        whole = bool(partitions) and all(p in limits and limits[p].is_exclusive for p in partitions)
        nodes, memory_mib = tres.nodes, tres.memory_mib if self._cluster.has_memory else 0
        are_tasks = tres.cpus % nodes != 0 and not tres.gpus
        chunks = ceil(tres.cpus / threads) if are_tasks else nodes
        return Request(
            chunks=chunks,
            cores=threads if are_tasks else threads * ceil(tres.cpus / nodes / threads),
            memory_mib=ceil(memory_mib / chunks),
            gpus=_gpus(tres, nodes),
            others={name: ceil(n / chunks) for name, n in tres.others.items() if self._cluster.has(name)},
            most_on_node=None if are_tasks else 1,
            exclusive=whole,
            partitions=partitions,
            site_resources=self._of_site(tres),
        )

    def _of_site(self, tres: Tres) -> dict[str, int]:
        """What it requests of the resources that the cluster declares."""
        found = Counter[str]()
        for name, amount in tres.site_resources.items():
            if amount and (declared := self._cluster.site_resource(name)) is not None:
                found[declared] += amount
        return dict(found)


def _the_first(jobs: list[str]) -> str:
    """For example "2 jobs, the first is job 7"."""
    return f"job {jobs[0]}" if len(jobs) == 1 else f"{len(jobs):,} jobs, the first is job {jobs[0]}"


def _gpus(tres: Tres, nodes: int) -> Gpus | None:
    """On each node. GPUs of several types are of any of these."""
    if not tres.gpus:
        return None
    types = frozenset() if "" in tres.gpus else frozenset(tres.gpus)
    return Gpus(ceil(tres.n_gpus / nodes), types=types)
